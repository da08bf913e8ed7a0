"""BatchNorm: torch's own numbers in training and evaluation, and the options that torch lacks."""

import copy

import pytest
import torch
from torch import nn

from rmsrepro.errors import ConfigError
from rmsrepro.norms import NormFactory, norm_config

SHAPES = {"rows": (6, 5), "sequences": (3, 4, 5), "images": (4, 5, 3, 2)}


def ours(impl: str, shape: tuple[int, ...], **fields) -> nn.Module:
    factory = NormFactory(norm_config("batchnorm", **fields), impl)
    return factory.channels(5) if len(shape) == 4 else factory.features(5)


def flat(x: torch.Tensor) -> torch.Tensor:
    """View [B, T, D] as the [B*T, D] that nn.BatchNorm1d takes."""
    return x.reshape(-1, 5) if x.dim() == 3 else x


@pytest.mark.parametrize("kind", SHAPES)
def test_training_and_evaluation_match_torch(impl, kind, randomise):
    shape = SHAPES[kind]
    module = randomise(ours(impl, shape))
    torch_module = nn.BatchNorm2d(5) if kind == "images" else nn.BatchNorm1d(5)
    torch_module.load_state_dict(module.state_dict())
    for _ in range(3):
        x = (torch.randn(shape) * 2 + 1).requires_grad_()
        other = x.detach().clone().requires_grad_()
        y, expected = module(x), torch_module(flat(other)).view(shape)
        torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
        upstream = torch.randn(shape)
        y.backward(upstream)
        expected.backward(upstream)
        torch.testing.assert_close(x.grad, other.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(module.state_dict(), torch_module.state_dict())
    x = torch.randn(shape)
    torch.testing.assert_close(module.eval()(x), torch_module.eval()(flat(x)).view(shape), rtol=1e-5, atol=1e-5)


def test_evaluation_takes_one_row_and_moves_nothing(impl):
    module = ours(impl, (6, 5)).eval()
    before = copy.deepcopy(module.state_dict())
    assert module(torch.randn(1, 5)).shape == (1, 5)
    assert torch.equal(module.num_batches_tracked, torch.tensor(0))
    torch.testing.assert_close(module.state_dict(), before)


@pytest.mark.parametrize("rows", [2, 4])
def test_unbiased_variance_divides_by_one_less(impl, rows, by_hand):
    cfg = norm_config("batchnorm", unbiased=True)
    module = NormFactory(cfg, impl).features(5)
    x = torch.randn(rows, 5)
    torch.testing.assert_close(module(x).double(), by_hand(cfg, x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(module.running_var, 0.9 + 0.1 * x.var(0, correction=1))


@pytest.mark.parametrize("shape", [(1, 5), (1, 1, 5), (1, 5, 1, 1)], ids=str)
def test_one_value_per_feature_is_refused_with_the_way_out(impl, shape):
    module = ours(impl, shape)
    with pytest.raises(ConfigError, match=r"at least 2 values per feature .*set train\.batch_size=2 or more"):
        module(torch.randn(shape))
    assert torch.equal(module.running_mean, torch.zeros(5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", SHAPES)
def test_running_statistics_stay_float32_under_low_precision(impl, kind, dtype):
    shape = SHAPES[kind]
    module, reference = ours(impl, shape), ours("composed", shape)
    x = (torch.randn(shape) + 3).to(dtype)
    module(x)
    reference(x.float())
    assert module.running_var.dtype == torch.float32
    torch.testing.assert_close(module.state_dict(), reference.state_dict(), rtol=1e-5, atol=1e-6)


def test_constant_features_give_zero_and_finite_gradients(impl, eps_placement):
    module = ours(impl, (6, 5), eps_placement=eps_placement)
    x = torch.full((6, 5), 7.0, requires_grad=True)
    y = module(x)
    y.sum().backward()
    # Torch's mean of equal numbers may be off in the last bit, which 1/sqrt(eps) enlarges.
    torch.testing.assert_close(y, torch.zeros(6, 5), rtol=0, atol=1e-3)
    assert torch.isfinite(x.grad).all()
