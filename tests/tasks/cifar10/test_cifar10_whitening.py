"""ZCA whitening: the formula, what it does to the covariance, and the cache beside the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rmsrepro.tasks.cifar10 import whitening as module
from rmsrepro.tasks.cifar10.whitening import Whitening, cached_whitening, fit_whitening, scale_pixels

EPS = 1e-5


@pytest.fixture
def images(monkeypatch) -> torch.Tensor:
    """Correlated uint8 images [300, 3, 4, 4], in more than one chunk and not a whole number of them."""
    monkeypatch.setattr(module, "_CHUNK", 64)
    random = np.random.default_rng(0)
    mixing = random.normal(size=(48, 48))
    flat = random.normal(size=(300, 48)) @ mixing * 5 + 120
    return torch.from_numpy(flat.clip(0, 255).astype(np.uint8)).view(300, 3, 4, 4)


def by_formula(images: torch.Tensor) -> np.ndarray:
    x = (images.flatten(1).numpy().astype(np.float64) - 127.5) / 128
    x = x - x.mean(0)
    u, s, _ = np.linalg.svd(x.T @ x / len(x))
    return x @ (u @ np.diag(1 / np.sqrt(s + EPS)) @ u.T)


def test_it_is_the_formula(images):
    white = fit_whitening(images, EPS).apply(images)
    assert white.shape == images.shape
    assert white.dtype == torch.float32
    np.testing.assert_allclose(white.flatten(1).numpy(), by_formula(images), atol=2e-4)


def test_whitened_training_images_have_identity_covariance(images):
    white = fit_whitening(images, EPS).apply(images).flatten(1).double()
    torch.testing.assert_close(white.mean(0), torch.zeros(48, dtype=torch.float64), atol=1e-5, rtol=0)
    covariance = white.T @ white / len(white)
    torch.testing.assert_close(covariance, torch.eye(48, dtype=torch.float64), atol=0.02, rtol=0)


def test_a_direction_without_variance_stays_finite():
    images = torch.full((5, 3, 2, 2), 7, dtype=torch.uint8)
    white = fit_whitening(images, EPS).apply(images)
    torch.testing.assert_close(white, torch.zeros(5, 3, 2, 2), atol=1e-3, rtol=0)


def test_pixels_are_scaled_as_in_the_code_base():
    assert scale_pixels(torch.tensor([0, 127, 255], dtype=torch.uint8)).tolist() == [
        -127.5 / 128,
        -0.5 / 128,
        127.5 / 128,
    ]


@pytest.fixture
def fit(images):
    """Return a fit that counts its calls."""

    def counting() -> Whitening:
        counting.calls += 1
        return fit_whitening(images, EPS)

    counting.calls = 0
    return counting


def test_a_second_run_reads_what_the_first_one_fitted(tmp_path, fit):
    first = cached_whitening([tmp_path / "new"], {"eps": EPS}, fit)
    second = cached_whitening([tmp_path / "new"], {"eps": EPS}, fit)
    assert fit.calls == 1
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.matrix, second.matrix)
    assert len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.parametrize("other", [{"eps": 1e-4, "images": 9}, {"eps": EPS, "images": 10}])
def test_whatever_decides_it_is_kept_apart(tmp_path, fit, other):
    cached_whitening([tmp_path], {"eps": EPS, "images": 9}, fit)
    cached_whitening([tmp_path], other, fit)
    assert fit.calls == 2


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 100])
def test_a_damaged_file_is_fitted_anew(tmp_path, fit, damage):
    whole = cached_whitening([tmp_path], {}, fit)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert torch.equal(cached_whitening([tmp_path], {}, fit).matrix, whole.matrix)
    assert fit.calls == 2
    cached_whitening([tmp_path], {}, fit)
    assert fit.calls == 2


def test_a_flipped_bit_is_noticed(tmp_path, fit):
    cached_whitening([tmp_path], {}, fit)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    cached_whitening([tmp_path], {}, fit)
    assert fit.calls == 2


def test_where_the_data_folder_cannot_be_written_the_next_one_is_used(tmp_path, fit):
    (tmp_path / "file").write_text("in the way")
    folders = [tmp_path / "file" / "cifar10", tmp_path / "fallback"]
    cached_whitening(folders, {}, fit)
    cached_whitening(folders, {}, fit)
    assert fit.calls == 1
    assert cached_whitening(folders[:1], {}, fit).matrix.shape == (48, 48)
    assert fit.calls == 2
