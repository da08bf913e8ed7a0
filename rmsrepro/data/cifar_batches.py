"""The two forms of a CIFAR-10 batch: the binary version's records, and the python version's pickle."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmsrepro.data.files import read_maybe_compressed, sha256_hex
from rmsrepro.errors import DataError

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE
RECORD_BYTES = 1 + PIXEL_BYTES


@dataclass(frozen=True)
class Batch:
    """The images of one file, and size and SHA-256 of its binary version, whichever form it has."""

    images: np.ndarray  # uint8 [N, 3, 32, 32]
    labels: np.ndarray  # integers [N]
    size: int
    sha256: str


def read_batch(path: Path) -> Batch:
    """Read a batch file of either form, plain or compressed.

    Raises:
        DataError: it is neither, or damaged.
    """
    content = read_maybe_compressed(path)
    if ".bin" not in path.suffixes:
        pixels, labels = unpickle_batch(content, path)
        records = to_records(pixels, labels)
        return Batch(pixels.reshape(-1, 3, SIDE, SIDE), labels, len(records), sha256_hex(records))
    if not content or len(content) % RECORD_BYTES:
        raise DataError(
            f"{path} has {len(content)} bytes, not a whole number of records of {RECORD_BYTES}; "
            "it is cut short or is not a batch of CIFAR-10's binary version; fetch it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return Batch(images, records[:, 0], len(content), sha256_hex(content))


def to_records(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """Return the binary version of uint8 pixels [N, 3072] (colour planes) and labels [N]."""
    records = np.empty((len(pixels), RECORD_BYTES), np.uint8)
    records[:, 0] = labels.astype(np.uint8)
    records[:, 1:] = pixels
    return records.tobytes()


def unpickle_batch(content: bytes, where: Path | str) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels uint8 [N, 3072] and labels int64 [N] of a batch of the python version.

    Only what such a batch is made of is unpickled, so a file from anywhere can do no harm.

    Raises:
        DataError: it is not such a batch.
    """
    try:
        batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"], np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{where} is not a batch of CIFAR-10's python version ({type(error).__name__}: {error}); fetch it again"
        ) from error
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXEL_BYTES):
        raise DataError(
            f"{where}: expected {len(labels)} x {PIXEL_BYTES} uint8 pixels for its {len(labels)} labels, "
            f"found {pixels.dtype} of shape {pixels.shape}"
        )
    return pixels, labels


class _BatchUnpickler(pickle.Unpickler):
    """Knows numpy arrays and built-in containers, and refuses all other names."""

    def find_class(self, module: str, name: str):
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty_array
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in it")


def _empty_array(*_: object) -> np.ndarray:
    """Return the array whose type, shape and values the pickle then sets, as numpy's `_reconstruct` does."""
    return np.empty(0, np.int8)
