"""The fast dropout drops at its rate, scales what stays, and sends gradients the same way."""

import pytest
import torch

from rmsrepro.kernels.cpu.dropout import dropout
from rmsrepro.layers.dropout import Dropout

MASK32 = (1 << 32) - 1


def philox(counter, key):
    """Return the four words of Philox4x32-10 (Salmon et al. 2011)."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k0, right & MASK32, (left >> 32) ^ d ^ k1, left & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return a, b, c, d


def test_the_kernel_s_mask_is_philox_s_on_every_processor(kernels, instruction_set):
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)  # as published
    seed, n, dropped = 0x123456789ABCDEF0, 300, 30_000
    halves = []
    for block in range(3):
        words = [philox((16 * block + i, 0, 0, 0), (seed & MASK32, seed >> 32)) for i in range(16)]
        halves += [(four[half // 2] >> 16 * (half % 2)) & 0xFFFF for half in range(8) for four in words]
    kept = torch.tensor([half >= dropped for half in halves[:n]])
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(n, dtype=dtype)
        assert torch.equal(dropout(x, seed, dropped, 2.0), torch.where(kept, 2 * x, 0 * x))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
def test_the_rate_is_met_and_the_rest_is_scaled(rate, path):
    x = torch.ones(400, 257, requires_grad=True)
    y = Dropout(rate)(x)
    dropped = (y == 0).double().mean().item()
    assert dropped == pytest.approx(rate, abs=0.006)  # six standard deviations
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - rate)))
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rate", [0.0, 1e-9, 1.0 - 1e-9, 1.0])
def test_the_ends_of_the_rate_keep_and_drop_all(rate, dtype, path):
    torch.testing.assert_close(
        Dropout(rate)(torch.ones(5, dtype=dtype)), torch.full((5,), round(1.0 - rate), dtype=dtype)
    )


def test_the_layer_s_mask_is_the_kernel_s_with_any_number_of_threads(kernels):
    x, threads = torch.randn(100_001), torch.get_num_threads()
    torch.manual_seed(3)
    seed = int(torch.empty(1, dtype=torch.int64).random_(-(1 << 63), None)) % (1 << 64)
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.manual_seed(3)
            assert torch.equal(Dropout(0.25)(x), dropout(x, seed, 1 << 14, 1.0 / 0.75))
            assert torch.equal(dropout(x, seed, 1 << 14, 2.0)[:5000], dropout(x[:5000], seed, 1 << 14, 2.0))
    finally:
        torch.set_num_threads(threads)


def test_function_transforms_get_torch_s_own(path):
    x, layer = torch.ones(4, 50), Dropout(0.5)
    gradient = torch.func.grad(lambda x: layer(x).sum())(x)
    assert set(gradient.unique().tolist()) <= {0.0, 2.0}
    assert torch.func.vmap(layer, randomness="different")(x).shape == x.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_any_type_and_layout_keeps_its_elements(dtype, path):
    x = torch.randn(70, 30, dtype=dtype).t().requires_grad_()
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert y.dtype == dtype
    assert torch.equal(y, x * x.grad)
    assert sorted(x.grad.unique().tolist()) == [0.0, 2.0]


def test_neighbours_are_dropped_independently(path):
    dropped = (Dropout(0.5)(torch.ones(100_000)) == 0).double()
    for distance in (1, 2, 3, 4, 8, 16, 128):
        together = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert together == pytest.approx(0.25, abs=0.01)


def test_the_draw_follows_torchs_seed_and_evaluation_drops_nothing(path):
    layer, x = Dropout(0.3), torch.randn(50, 3)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(layer(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert layer.eval()(x) is x
