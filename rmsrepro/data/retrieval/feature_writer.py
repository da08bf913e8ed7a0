"""Write a feature file batch by batch, so that a killed extraction goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rmsrepro.data.files import not_writable, write_atomically
from rmsrepro.errors import DataError


class FeatureWriter:
    """A .npy file that grows under the name `<file>.partial` and is renamed when its last row is there.

    `identity` says what the rows are made of; a partial file of something else is refused.
    """

    def __init__(self, path: Path, shape: tuple[int, int], dtype: str, identity: str) -> None:
        self.path, self.shape = path, shape
        self._partial, self._note = path.with_name(f"{path.name}.partial"), path.with_name(f"{path.name}.progress")
        self._identity = f"{identity}, {shape[0]} rows of {shape[1]} {dtype}"
        self.done = self._recall()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = "r+" if self.done else "w+"
            self._rows = np.lib.format.open_memmap(self._partial, mode, np.dtype(dtype), shape)
        except (OSError, ValueError) as error:
            raise not_writable(path, error if isinstance(error, OSError) else OSError(str(error))) from error

    @property
    def is_complete(self) -> bool:
        """Whether every row is there."""
        return self.done == self.shape[0]

    def write(self, rows: np.ndarray) -> None:
        """Append `rows` [n, width]; they are on disk when this returns."""
        self._rows[self.done : self.done + len(rows)] = rows
        self._rows.flush()
        self.done += len(rows)
        write_atomically(self._note, json.dumps({"identity": self._identity, "done": self.done}).encode())

    def finish(self) -> None:
        """Give the file its name."""
        assert self.is_complete
        self._partial.replace(self.path)
        self._note.unlink(missing_ok=True)

    def _recall(self) -> int:
        if not (self._note.is_file() and self._partial.is_file()):
            return 0
        try:
            note = json.loads(self._note.read_bytes())
            identity, done = note["identity"], int(note["done"])
        except (ValueError, KeyError, TypeError):
            return 0
        if identity != self._identity:
            raise DataError(
                f"{self._partial} was begun with other settings ({identity}; now {self._identity}): "
                "give those again, or delete it"
            )
        return done
