"""Data sets of running text: one file for each of train, valid and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.canonical import CanonicalFile, Source, fetch_canonical
from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.files import SUFFIXES, find_split_file
from rmsrepro.data.progress import say
from rmsrepro.data.text import Text, read_text
from rmsrepro.errors import DataError

SPLITS = ("train", "valid", "test")


class MissingTextError(DataError):
    """A split that is neither there nor to be had; a damaged one is a plain DataError."""


@dataclass(frozen=True)
class KnownText(CanonicalFile):
    """A published text; with no SHA-256 known, size and counts say whether a file is it."""

    lines: int
    tokens: int  # words, and one end of sentence a line

    def mismatch(self, size: int, sha256: str) -> str | None:
        """Say what was expected and what was found, or None when they are the same."""
        if self.sha256:
            return super().mismatch(size, sha256)
        return None if size == self.size else f"expected {self.size} bytes, found {size}"

    def difference(self, text: Text) -> str | None:
        """Say how `text` differs from the published one, or None."""
        tokens = len(text.lines) + sum(len(line.split()) for line in text.lines)
        if (len(text.lines), tokens) != (self.lines, self.tokens):
            found = f"found {len(text.lines)} lines and {tokens} tokens"
            return f"expected {self.lines} lines and {self.tokens} tokens, {found}"
        return self.mismatch(text.size, text.sha256)


@dataclass(frozen=True)
class TextDataSet:
    """The files train.txt, valid.txt and test.txt of one folder below a data root, each plain, .gz or .xz.

    Text of one's own may stand in their place: `load` takes it, `check` says that it is not the published one.
    """

    name: str
    texts: tuple[KnownText, KnownText, KnownText]
    sources: Sequence[Source]

    def load(self, root: Path, split: str) -> Text:
        """Return one split from below `root`, fetching all that is not there when it is not.

        Raises:
            MissingTextError: it is not there and cannot be fetched.
            DataError: it is damaged, empty or not UTF-8.
        """
        path = self._find(root, split)
        if path is None:
            lacking = [self._known(other) for other in SPLITS if self._find(root, other) is None]
            try:
                fetch_canonical(self.name, root / self.name, lacking, self.sources)
            except DataError as error:
                path = self._find(root, split)
                if path is None:
                    raise missing(root / self.name, split, str(error)) from error
        return read_text(path or root / self.name / f"{split}.txt")

    def difference(self, split: str, text: Text) -> str | None:
        """Say how `text` differs from the published split, or None."""
        return self._known(split).difference(text)

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Make the data set complete and as published below `root`, replacing what is wrong there."""
        wanted = [self._known(split) for split in SPLITS if self._wrong(root, split)]
        if wanted:
            fetch_canonical(self.name, root / self.name, wanted, self.sources)
        return self.check(root)

    def check(self, root: Path) -> list[CheckedFile]:
        """Read and verify every split, fetching none."""
        return [self._check(root, split) for split in SPLITS]

    def _check(self, root: Path, split: str) -> CheckedFile:
        path, way_out = self._find(root, split), f"`python -m rmsrepro.data fetch {self.name}` brings it"
        if path is None:
            raise missing(root / self.name, split, way_out)
        text = read_text(path)
        if wrong := self.difference(split, text):
            raise DataError(f"{path} is not the {self.name} that everybody uses: {wrong}; {way_out}")
        return CheckedFile(path, text.size, text.sha256)

    def _wrong(self, root: Path, split: str) -> bool:
        try:
            self._check(root, split)
        except MissingTextError:
            return True
        except DataError as error:
            say(str(error))
            return True
        return False

    def _known(self, split: str) -> KnownText:
        return self.texts[SPLITS.index(split)]

    def _find(self, root: Path, split: str) -> Path | None:
        return find_split_file(root / self.name, f"{split}.txt")


def load_own_text(root: Path, folder: str, split: str) -> Text:
    """Return a split of text of one's own: `root/folder/<split>.txt`, or `root/<split>.txt`; plain, .gz or .xz."""
    for place in (root / folder, root):
        if path := find_split_file(place, f"{split}.txt"):
            return read_text(path)
    raise missing(root / folder, split, "data=text reads the folder task.text below data.root; set both")


def missing(folder: Path, split: str, way_out: str) -> MissingTextError:
    """Return the one line that names the file that is not there."""
    others = ", ".join(f"{split}.txt{suffix}" for suffix in SUFFIXES if suffix)
    return MissingTextError(f"{folder / f'{split}.txt'} is not there (nor {others}); {way_out}")
