"""What every data set offers to the command line, whatever kind of data it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class CheckedFile:
    """A file that was read and found right; size in bytes and SHA-256 are those of its decoded content."""

    path: Path
    size: int
    sha256: str


class DataSet(Protocol):
    """A data set below a data root; what is wrong with it is raised as DataError."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Make the data set complete and right below `root`, and verify it."""
        ...

    def check(self, root: Path) -> list[CheckedFile]:
        """Read and verify the data set below `root`, without fetching anything."""
        ...
