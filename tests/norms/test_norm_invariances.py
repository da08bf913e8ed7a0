"""The paper's Table 1 and its gradient statements, measured."""

import pytest
import torch

from rmsrepro.norms import NormFactory, build_norm, norm_config

CHANGES = ("matrix re-scale", "matrix re-centre", "vector re-scale", "data re-scale", "data re-centre", "case re-scale")

# Paper, Table 1; the last two rows are ours: the L2 norm shares RMSNorm's row, and without a norm nothing holds.
TABLE_1 = {
    "batchnorm": (True, False, True, True, True, False),
    "weightnorm": (True, False, True, False, False, False),
    "layernorm": (True, True, False, True, False, True),
    "rmsnorm": (True, False, False, True, False, True),
    "prmsnorm": (True, False, False, True, False, True),
    "l2norm": (True, False, False, True, False, True),
    "none": (False, False, False, False, False, False),
}
CELLS = [(norm, change, row[i]) for norm, row in TABLE_1.items() for i, change in enumerate(CHANGES)]
SCALE = 3.0


def changed(change: str, w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the weights [out, in] and inputs [N, in] after one of Table 1's changes."""
    w, x = w.clone(), x.clone()
    if change == "matrix re-scale":
        w *= SCALE
    elif change == "matrix re-centre":
        w += torch.linspace(
            -1, 2, w.shape[1], dtype=w.dtype
        )  # one vector for all rows: every summed input shifts alike
    elif change == "vector re-scale":
        w[0] *= SCALE
    elif change == "data re-scale":
        x *= SCALE
    elif change == "data re-centre":
        x += torch.linspace(-1, 2, x.shape[1], dtype=x.dtype)
    else:
        x[0] *= SCALE
    return w, x


def weight_of(layer: torch.nn.Module) -> torch.nn.Parameter:
    return layer.get_submodule("layer").weight if hasattr(layer, "layer") else layer.weight


def layer_with(norm: str, impl: str, **fields) -> torch.nn.Module:
    factory = NormFactory(norm_config(norm, eps=1e-14, shift=False, **fields), impl)
    return factory.linear(12, 32, bias=True).double()


@pytest.mark.parametrize(("norm_name", "change", "invariant"), CELLS, ids=[f"{n}-{c}" for n, c, _ in CELLS])
def test_table_1(norm_name, change, invariant, impl, randomise):
    layer = randomise(layer_with(norm_name, impl))
    w, x = weight_of(layer).detach().clone(), torch.randn(16, 12, dtype=torch.float64)
    before = layer(x)
    w, x = changed(change, w, x)
    with torch.no_grad():
        weight_of(layer).copy_(w)
    difference = (layer(x) - before).abs().max()
    assert difference < 1e-8 if invariant else difference > 1e-2


def gradients(layer: torch.nn.Module, x: torch.Tensor, upstream: torch.Tensor) -> dict[str, torch.Tensor]:
    layer.zero_grad()
    layer(x).backward(upstream)
    return {"W": weight_of(layer).grad, "g": layer.get_parameter("norm.weight").grad, "b": layer.bias.grad}


@pytest.mark.parametrize("delta", [0.25, 3.0])
def test_gradients_under_scaling_of_inputs_and_weights(statistic_norm, impl, delta, randomise):
    layer = randomise(layer_with(statistic_norm, impl))
    x = torch.randn(16, 12, dtype=torch.float64)
    upstream = torch.randn(16, 32, dtype=torch.float64)
    plain = {name: grad.clone() for name, grad in gradients(layer, x, upstream).items()}

    scaled_inputs = gradients(layer, delta * x, upstream)
    torch.testing.assert_close(scaled_inputs, plain, rtol=1e-7, atol=1e-9)

    with torch.no_grad():
        weight_of(layer).mul_(delta)
    scaled_weights = gradients(layer, x, upstream)
    torch.testing.assert_close(scaled_weights, plain | {"W": plain["W"] / delta}, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rmsnorm_is_layernorm_on_centred_input(impl, dtype):
    a = torch.randint(-50, 50, (6, 32)).to(dtype)
    a[:, 16:] = -a[:, :16]  # whole numbers in pairs: the mean is zero without rounding
    rms = build_norm("rmsnorm", 32, impl=impl)(a)
    torch.testing.assert_close(rms, build_norm("layernorm", 32, impl=impl)(a), rtol=0, atol=4 * torch.finfo(dtype).eps)


def test_partial_norm_of_all_elements_is_rmsnorm(impl, axes):
    x = torch.randn(3, 8, 4, 4)
    whole = NormFactory(norm_config("prmsnorm", p=1.0, axes=axes), impl).channels(8)(x)
    assert torch.equal(whole, NormFactory(norm_config("rmsnorm", axes=axes), impl).channels(8)(x))


def test_partial_statistic_ignores_the_rest_of_the_row(impl):
    norm = build_norm("prmsnorm", 32, impl=impl)
    x = torch.randn(3, 32)
    other = torch.cat([x[:, :2], 100 * x[:, 2:]], dim=1)  # k = 2
    torch.testing.assert_close(norm(other)[:, :2], norm(x)[:, :2])
