"""Data sets of captioned images below a data root; they are brought there by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.retrieval.layouts import split_names
from rmsrepro.data.retrieval.split import read_split
from rmsrepro.errors import DataError


@dataclass(frozen=True)
class CaptionDataSet:
    """A folder of captions and features in one of the known layouts."""

    name: str
    folders: tuple[str, ...]
    """Names that the folder goes by below a data root."""
    origin: str
    """Where its files come from, as the end of a sentence."""

    def folder(self, root: Path) -> Path:
        """Return the folder below `root`; raises DataError, with where the data comes from, if there is none."""
        for name in self.folders:
            if (root / name).is_dir():
                return root / name
        raise DataError(f"{root / self.folders[0]} is not there; {self.origin}")

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Check what is there; raises DataError with the way to get it, for no source gives it to a program."""
        return self.check(root)

    def check(self, root: Path) -> list[CheckedFile]:
        """Read and verify every split that is there."""
        folder, files = self.folder(root), []
        for split in split_names(folder):
            read = read_split(folder, split)
            files.append(CheckedFile(read.text.path, read.text.size, read.text.sha256))
            features = read.features.path
            files.append(CheckedFile(features, features.stat().st_size, read.features_sha256))
        if not files:
            raise DataError(f"{folder} has no captions (train.txt or train_caps.txt, and so on); {self.origin}")
        return files
