"""Load, fetch and check a data set of labelled images whose files are canonical."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmsrepro.data.canonical import CanonicalFile, Source, fetch_canonical
from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.images import ImageSplits, checked_labels
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError


@dataclass(frozen=True)
class Part:
    """The images or the labels (or both) that one file holds, and what was read to get them."""

    file: CheckedFile
    images: np.ndarray | None = None  # uint8 [N, ...]
    labels: np.ndarray | None = None  # [N], any integers


@dataclass(frozen=True)
class ImageDataSet:
    """A data set of labelled images, stored as the canonical files `train_files` and `test_files`."""

    name: str
    classes: int
    train_files: tuple[CanonicalFile, ...]
    test_files: tuple[CanonicalFile, ...]
    sources: Sequence[Source]
    find: Callable[[Path, CanonicalFile], Path | None]  # (root, file) -> where it is, in whatever layout
    read: Callable[[Path, CanonicalFile], Part]  # decode one file, checking its format

    @property
    def files(self) -> tuple[CanonicalFile, ...]:
        """All the files, in the order in which sources and checks list them."""
        return self.train_files + self.test_files

    def load(self, root: Path, *, allow_noncanonical: bool = False) -> ImageSplits:
        """Return the data set from below `root`, fetching what is not there at all.

        A file that is there but wrong is never replaced here, for it may be somebody's own data.
        """
        missing = [file for file in self.files if self.find(root, file) is None]
        if missing:
            fetch_canonical(self.name, root / self.name, missing, self.sources)
        return self._read(root, allow_noncanonical)[0]

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Make the data set complete and canonical below `root`, replacing what is wrong there."""
        if all(self.find(root, file) for file in self.files):
            try:
                return self.check(root)
            except DataError as error:
                say(f"{error}: fetching what is wrong anew")
        fetch_canonical(self.name, root / self.name, self.files, self.sources)
        return self.check(root)

    def check(self, root: Path) -> list[CheckedFile]:
        """Read and verify every file, fetching none."""
        return self._read(root)[1]

    def _read(self, root: Path, allow_noncanonical: bool = False) -> tuple[ImageSplits, list[CheckedFile]]:
        train, test = (
            [self.read(self._path(root, file), file) for file in files] for files in (self.train_files, self.test_files)
        )
        # The telling errors first: counts and labels, and only then that the content is not the known one.
        train_images, train_labels = self._join(train)
        test_images, test_labels = self._join(test)
        checked = [part.file for part in train + test]
        for file, canonical in zip(checked, self.files, strict=True):
            wrong = canonical.mismatch(file.size, file.sha256)
            if wrong and not allow_noncanonical:
                raise DataError(
                    f"{file.path} has the right format but is not the {self.name} that everybody uses: "
                    f"{wrong}; `python -m rmsrepro.data fetch {self.name}` replaces it"
                )
        checksums = {
            canonical.name: f"sha256:{file.sha256}" for canonical, file in zip(self.files, checked, strict=True)
        }
        source = str(checked[0].path.parent)
        return ImageSplits(train_images, train_labels, test_images, test_labels, checksums, source), checked

    def _path(self, root: Path, file: CanonicalFile) -> Path:
        path = self.find(root, file)
        if path is None:
            raise DataError(
                f"{root / self.name / file.name} is not there; "
                f"run `python -m rmsrepro.data fetch {self.name}`, "
                "or set data.root (or RMSREPRO_DATA) to the folder that has it"
            )
        return path

    def _join(self, parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
        images = [part.images for part in parts if part.images is not None]
        joined = np.concatenate(images)  # a copy, contiguous and writable, where the parts are neither
        labels = [
            checked_labels(part.labels, joined if part.images is None else part.images, self.classes, part.file.path)
            for part in parts
            if part.labels is not None
        ]
        return joined, np.concatenate(labels)
