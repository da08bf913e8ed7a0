"""The IDX format of MNIST: a magic number, the dimensions, then the values in row-major order."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmsrepro.data.files import read_maybe_compressed, sha256_hex
from rmsrepro.errors import DataError

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CONTENT = {1: "labels", 3: "images"}


@dataclass(frozen=True)
class IdxFile:
    """The array of an IDX file, not to be written to, and the size and SHA-256 of the file's decompressed bytes."""

    array: np.ndarray
    size: int
    sha256: str


def read_idx(path: Path, ndim: int) -> IdxFile:
    """Read an IDX file, plain or compressed, that must have `ndim` dimensions (1: labels, 3: images).

    Raises:
        DataError: the magic number, the dimensions or the file's length are not what they should be.
    """
    payload = read_maybe_compressed(path)
    dtype, shape, header_bytes = _parse_header(path, payload, ndim)

    item_bytes = math.prod(shape[1:]) * dtype.itemsize
    expected_bytes = header_bytes + shape[0] * item_bytes
    if len(payload) != expected_bytes:
        items = (len(payload) - header_bytes) // item_bytes if item_bytes else 0
        trouble = "cut short" if len(payload) < expected_bytes else "followed by other bytes"
        raise DataError(
            f"{path} is {trouble}: its header says {_describe(shape)}, that is {expected_bytes} bytes, "
            f"but it holds {len(payload)} bytes ({items} {_CONTENT.get(ndim, 'items')}); fetch it again"
        )
    array = np.frombuffer(payload, dtype, offset=header_bytes).reshape(shape)
    return IdxFile(array.astype(dtype.newbyteorder("="), copy=False), len(payload), sha256_hex(payload))


def _parse_header(path: Path, payload: bytes, ndim: int) -> tuple[np.dtype, tuple[int, ...], int]:
    code, found_ndim = (payload[2], payload[3]) if len(payload) >= 4 else (0, 0)
    if payload[:2] != b"\0\0" or code not in _DTYPES or found_ndim == 0:
        raise DataError(
            f"{path} is not an IDX file: expected it to start with {bytes((0, 0, 8, ndim))!r}, "
            f"found {payload[:16]!r}; fetch it again"
        )
    if found_ndim != ndim:
        wanted, found = _CONTENT.get(ndim, "other data"), _CONTENT.get(found_ndim, "other data")
        raise DataError(
            f"{path} holds {found} ({found_ndim} dimensions) where {wanted} ({ndim} dimensions) belong: "
            "are two files swapped?"
        )
    header_bytes = 4 + 4 * ndim
    if len(payload) < header_bytes:
        raise DataError(f"{path} is cut short inside its header of {header_bytes} bytes; fetch it again")
    return np.dtype(_DTYPES[code]), struct.unpack(f">{ndim}I", payload[4:header_bytes]), header_bytes


def _describe(shape: tuple[int, ...]) -> str:
    sides = " x ".join(map(str, shape[1:]))
    return f"{shape[0]} {_CONTENT.get(len(shape), 'items')}" + (f" of {sides}" if sides else "")
