"""ZCA whitening: pixels decorrelated by the symmetric inverse root of their covariance."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rmsrepro.data.files import write_atomically
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

#: Images that are worked on at once: 2000 of 3072 float64 pixels take 49 MB.
_CHUNK = 2000


def scale_pixels(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Map bytes of any shape to -1..1, as the code base does: (v - 127.5) / 128."""
    return images.to(dtype).sub_(127.5).div_(128.0)


@dataclass(frozen=True)
class Whitening:
    """The map x -> (x - mean) @ matrix of flat images; `mean` is [D] and `matrix` [D, D], both float32."""

    mean: Tensor
    matrix: Tensor

    def apply(self, images: Tensor) -> Tensor:
        """Scale and whiten uint8 images [N, ...] to float32 of the same shape, on the images' device."""
        mean, matrix = self.mean.to(images.device), self.matrix.to(images.device)
        white = torch.empty(images.shape, dtype=torch.float32, device=images.device)
        for start in range(0, len(images), _CHUNK):
            flat = scale_pixels(images[start : start + _CHUNK]).flatten(1).sub_(mean)
            torch.mm(flat, matrix, out=white[start : start + _CHUNK].view(len(flat), -1))
        return white


def fit_whitening(images: Tensor, eps: float) -> Whitening:
    """Fit to uint8 images [N, ...] of D pixels: U (S + eps)^(-1/2) U' from the covariance U S U'.

    All in float64: CIFAR-10's eigenvalues span eight powers of ten. Memory is a few D x D matrices and one chunk.
    Takes D^2 (N + 10 D) operations, most of a minute for 50,000 images of 3072 pixels on two idle cores.
    """
    pixels = images[0].numel()
    total = torch.zeros(pixels, dtype=torch.float64, device=images.device)
    outer = torch.zeros(pixels, pixels, dtype=torch.float64, device=images.device)
    for chunk in images.flatten(1).split(_CHUNK):
        flat = scale_pixels(chunk, torch.float64)
        total += flat.sum(0)
        outer.addmm_(flat.T, flat)
    mean = total / len(images)
    eigenvalues, vectors = torch.linalg.eigh(outer.div_(len(images)).sub_(torch.outer(mean, mean)))
    # Rounding can leave an eigenvalue of zero slightly negative.
    matrix = (vectors * (eigenvalues.clamp_min(0.0) + eps).rsqrt()) @ vectors.T
    return Whitening(mean.float().cpu(), matrix.float().cpu())


def cached_whitening(
    folders: Iterable[Path], decided_by: Mapping[str, object], fit: Callable[[], Whitening]
) -> Whitening:
    """Return the whitening that `decided_by` stands for: read from one of `folders`, else fitted and kept.

    It is kept in the first folder that can be written, whole or not at all; where none can, nothing is lost but the
    time of the next run. A file that is damaged is fitted anew.
    """
    text = json.dumps({"format": 1, **decided_by}, sort_keys=True)
    name = f"whitening-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
    paths = [folder / name for folder in folders]
    for path in paths:
        found = _read(path)
        if found is not None:
            return found
    say(f"fitting the whitening once; it is kept as {name} beside the data")
    whitening = fit()
    buffer = io.BytesIO()
    np.savez(buffer, mean=whitening.mean.numpy(), matrix=whitening.matrix.numpy())
    for path in paths:
        try:
            write_atomically(path, buffer.getvalue())
        except DataError:
            continue
        break
    return whitening


def _read(path: Path) -> Whitening | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return Whitening(torch.from_numpy(file["mean"]), torch.from_numpy(file["matrix"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
