"""Rows that break norms elsewhere: zero, single, huge, missing, and rows that do not lie one after another."""

import pytest
import torch

from rmsrepro.norms import NormFactory, build_norm, norm_config


def both_sites(norm: str, impl: str, dim: int, **fields) -> tuple[torch.nn.Module, torch.nn.Module]:
    factory = NormFactory(norm_config(norm, shift=True, **fields), impl)
    return factory.features(dim), factory.channels(dim)


def gradients(module: torch.nn.Module, x: torch.Tensor, loss) -> tuple[torch.Tensor, ...]:
    """Return output and gradients of input and parameters."""
    module.zero_grad()
    x = x.detach().requires_grad_()
    y = module(x)
    loss(y).backward()
    return (y.detach(), x.grad, *(p.grad.clone() for p in module.parameters()))


def test_zero_rows_have_finite_gradients(statistic_norm, impl, eps_placement):
    features, channels = both_sites(statistic_norm, impl, 8, eps_placement=eps_placement)
    for module, shape in ((features, (4, 8)), (channels, (2, 8, 3, 3))):
        results = gradients(module, torch.zeros(shape), torch.Tensor.sum)
        assert all(torch.isfinite(r).all() for r in results)
        assert (results[0] == 0).all()


@pytest.mark.parametrize("value", [5.0, -0.25])
def test_one_element_rows(row_norm, impl, value):
    y = build_norm(row_norm, 1, impl=impl, eps=1e-12)(torch.full((3, 1), value))
    expected = 0.0 if row_norm == "layernorm" else torch.tensor(value).sign().item()
    torch.testing.assert_close(y, torch.full((3, 1), expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(0, 8), (4, 0, 8), (0, 8, 5, 5)], ids=str)
def test_empty_batch_keeps_shape_type_and_state(statistic_norm, impl, axes, shape, dtype):
    module = both_sites(statistic_norm, impl, 8, axes=axes)[len(shape) == 4]
    fresh = both_sites(statistic_norm, impl, 8, axes=axes)[len(shape) == 4]
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    x = torch.zeros(shape, dtype=dtype, requires_grad=True)
    y = module(x)
    y.sum().backward()
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert x.grad is not None
    assert torch.equal(module.weight.grad, torch.zeros(8))
    assert torch.equal(module.bias.grad, torch.zeros(8))
    torch.testing.assert_close(dict(module.named_buffers()), buffers)
    normal = torch.randn(6, 8, 5, 5) if len(shape) == 4 else torch.randn(6, 8)
    torch.testing.assert_close(module(normal), fresh(normal))


def strided(case: str, rows: int, n: int) -> torch.Tensor:
    return {
        "every second column": lambda: torch.randn(rows, 2 * n)[:, ::2],
        "first columns": lambda: torch.randn(rows, 2 * n)[:, :n],
        "transposed": lambda: torch.randn(n, rows).t(),
        "expanded rows": lambda: torch.randn(1, n).expand(rows, n),
        "expanded columns": lambda: torch.randn(rows, 1).expand(rows, n),
        "swapped batch": lambda: torch.randn(3, rows, n).transpose(0, 1),
    }[case]()


@pytest.mark.parametrize(
    "case",
    ["every second column", "first columns", "transposed", "expanded rows", "expanded columns", "swapped batch"],
)
def test_layout_of_rows_does_not_matter(statistic_norm, impl, case, randomise):
    module = randomise(both_sites(statistic_norm, impl, 32, eps=0.1)[0])
    x = strided(case, 6, 32)
    before = x.clone()
    weights = torch.randn(x.mT.shape)
    for loss in (torch.Tensor.sum, lambda y: (y.mT * weights).sum()):
        contiguous = gradients(module, x.contiguous(), loss)
        torch.testing.assert_close(gradients(module, x, loss), contiguous, rtol=1e-5, atol=1e-5)
        flat = module(x.reshape(-1, 32)).view(x.shape)
        torch.testing.assert_close(module(x), flat, rtol=1e-5, atol=1e-5)
    assert torch.equal(x, before)


@pytest.mark.parametrize("layout", ["channels last", "swapped", "expanded"])
def test_layout_of_images_does_not_matter(statistic_norm, impl, axes, layout, randomise):
    module = randomise(both_sites(statistic_norm, impl, 4, axes=axes, eps=0.1)[1])
    x = {
        "channels last": lambda: torch.randn(3, 4, 5, 6).contiguous(memory_format=torch.channels_last),
        "swapped": lambda: torch.randn(6, 4, 5, 3).transpose(0, 3),
        "expanded": lambda: torch.randn(1, 4, 5, 1).expand(3, 4, 5, 6),
    }[layout]()
    weights = torch.randn(6, 5, 4, 3)
    for loss in (torch.Tensor.sum, lambda y: (y.permute(3, 2, 1, 0) * weights).sum()):
        contiguous = gradients(module, x.contiguous(), loss)
        torch.testing.assert_close(gradients(module, x, loss), contiguous, rtol=1e-5, atol=1e-5)


def test_upstream_gradient_is_not_written_to(statistic_norm, impl):
    module = both_sites(statistic_norm, impl, 16)[0]
    upstream = torch.randn(16, 5).t()
    kept = upstream.clone()
    module(torch.randn(5, 16, requires_grad=True)).backward(upstream)
    assert torch.equal(upstream, kept)


@pytest.mark.parametrize("shape", [(64,), (5, 64), (5, 7, 64), (2, 3, 4, 64), (2, 1, 3, 2, 64)], ids=len)
def test_every_rank_is_normalised_over_its_last_dimension(statistic_norm, impl, shape, by_hand):
    cfg = norm_config(statistic_norm)
    norm = NormFactory(cfg, impl).features(64)
    x = torch.randn(shape)
    if statistic_norm == "batchnorm" and len(shape) == 1:
        norm.eval()
        expected = x.double() / (1 + cfg.eps) ** 0.5
    else:
        expected = by_hand(cfg, x)
    y = norm(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("image", "shape"), [(False, (4, 6)), (False, ()), (True, (4, 8)), (True, (4, 6, 8, 8))])
def test_inputs_of_another_width_are_refused(statistic_norm, impl, image, shape):
    module = both_sites(statistic_norm, impl, 8)[image]
    with pytest.raises(ValueError, match=r"expects \[.*8.*\], got \["):
        module(torch.zeros(shape))


@pytest.mark.parametrize("name", ["rmsnorm", "prmsnorm"])
@pytest.mark.parametrize("image", [False, True], ids=["features", "channels"])
def test_constant_rows_whose_squares_overflow_fp16_give_exactly_one(name, impl, image):
    module = both_sites(name, impl, 32)[image]
    x = torch.full((2, 32, 4, 4) if image else (2, 32), 300.0, dtype=torch.float16)
    assert torch.equal(module(x), torch.ones_like(x))
    assert torch.equal(module(-x), -torch.ones_like(x))


@pytest.mark.parametrize("dim", [4, 32])
@pytest.mark.parametrize("balanced", [False, True], ids=["random", "mean zero"])
@pytest.mark.parametrize("image", [False, True], ids=["features", "channels"])
def test_squares_that_overflow_float32_are_right_or_flagged(row_norm, impl, image, dim, balanced, by_hand):
    cfg = norm_config(row_norm)
    module = both_sites(row_norm, impl, dim)[image]
    x = torch.randn(3, dim, 2, 2) if image else torch.randn(3, dim)
    if balanced:
        x[1] = 1.0
        x[1, ::2] = -1.0
    x[1] *= 1e30
    y = module(x)
    right = by_hand(cfg, x, image=image)
    flagged = ~torch.isfinite(y)
    assert not flagged[[0, 2]].any()
    torch.testing.assert_close(y[~flagged].double(), right[~flagged], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_row_spoils_no_other(row_norm, impl, bad):
    norm = both_sites(row_norm, impl, 32)[0]
    x = torch.randn(3, 32)
    good = norm(x)
    x[1, 0] = bad
    y = norm(x)
    assert not torch.isfinite(y[1]).all()
    torch.testing.assert_close(y[[0, 2]], good[[0, 2]])
