"""One look at every number of a feature file, remembered for as long as the file stays as it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rmsrepro.data.files import sha256_hex, state_of, write_atomically
from rmsrepro.data.retrieval.captions import PER_IMAGE
from rmsrepro.data.retrieval.features import FeatureFile
from rmsrepro.data.root import prepared_root
from rmsrepro.errors import DataError

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class Scan:
    """What the scan of a feature file found; there is none of a file with a number that is none."""

    sha256: str
    """Of the whole file."""
    repeated: bool
    """Whether every row stands there five times in a row, once for each caption."""


def scan_features(file: FeatureFile) -> Scan:
    """Check every row of `file`, or recall the check of an earlier run; in memory is one block of rows at a time.

    Raises:
        DataError: a row holds NaN or infinity, also where only float32 makes it infinite.
    """
    path = str(file.path.resolve())
    state = {"path": path, **state_of(file.path)}
    name = f"{sha256_hex(path.encode())[:16]}.json"
    try:
        note = prepared_root() / "checked-features" / name
    except DataError:  # a cache that cannot be written costs the next run a few seconds
        return _scan(file)
    if (known := _recall(note, state)) is not None:
        return known
    scan = _scan(file)
    with contextlib.suppress(DataError):
        write_atomically(note, json.dumps({**state, **asdict(scan)}).encode())
    return scan


def _recall(note: Path, state: dict[str, str | int]) -> Scan | None:
    try:
        found = json.loads(note.read_bytes())
        same = all(found[key] == value for key, value in state.items())
        return Scan(found["sha256"], found["repeated"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _scan(file: FeatureFile) -> Scan:
    rows, width = file.shape
    row_bytes = width * file.dtype.itemsize
    block_rows = PER_IMAGE * max(1, _BLOCK_BYTES // (PER_IMAGE * row_bytes))
    digest, repeated = hashlib.sha256(), rows % PER_IMAGE == 0
    with file.path.open("rb") as stream:
        digest.update(stream.read(file.offset))
        for first in range(0, rows, block_rows):
            data = stream.read(min(block_rows, rows - first) * row_bytes)
            digest.update(data)
            with np.errstate(over="ignore"):
                block = np.frombuffer(data, file.dtype).reshape(-1, width).astype(np.float32, copy=False)
            bad = ~np.isfinite(block).all(axis=1)
            if bad.any():
                row = first + int(bad.argmax())
                raise DataError(f"{file.path}: row {row} (counted from 0) holds NaN or infinity; extract it again")
            if repeated:
                groups = block.reshape(-1, PER_IMAGE, width)
                repeated = bool((groups == groups[:, :1]).all())
        digest.update(stream.read())
    return Scan(digest.hexdigest(), repeated)
