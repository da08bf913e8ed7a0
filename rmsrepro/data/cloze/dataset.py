"""Cloze data sets by name: found below the data root, built where there is a recipe, named where neither works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.canonical import CanonicalFile, Source, fetch_canonical
from rmsrepro.data.cloze.archive import SPLIT_FOLDERS, SUFFIXES, checksum, find_archive, read_members
from rmsrepro.data.cloze.question import BrokenQuestionError, parse_question
from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

_SHOWN = 3


@dataclass(frozen=True)
class ClozeDataSet:
    """An archive of `.question` files, `root/cloze/<name>.tar.xz` or another form of it."""

    name: str
    stand_in: str | None = None
    """Another data set's archive that serves as well."""
    where: str = ""
    """Where people get it, for the message when it is not there."""
    built: CanonicalFile | None = None
    """The archive as it is built here, where it can be."""
    sources: Sequence[Source] = ()

    def archive(self, root: Path, own: str = "cloze") -> Path:
        """Return the archive below `root`, built when it is not there and can be; `own` is the user's for data=cloze.

        Raises:
            DataError: it is not there and cannot be built.
        """
        name = own if self.name == "cloze" else self.name
        for candidate in filter(None, (name, self.stand_in)):
            if path := find_archive(root, candidate):
                return path
        if self.built is not None:
            fetch_canonical(self.name, root / "cloze", [self.built], self.sources)
            return root / "cloze" / self.built.name
        raise self._missing(root, name)

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Build the archive below `root` where it can be and is not there, and verify it."""
        self.archive(root)
        return self.check(root)

    def check(self, root: Path) -> list[CheckedFile]:
        """Read every question; an archive built here must be the same as everywhere."""
        path = next(filter(None, (find_archive(root, name) for name in (self.name, self.stand_in) if name)), None)
        if path is None:
            raise self._missing(root, self.name)
        questions, broken = 0, []
        for member in read_members(path):
            questions += member.split is not None
            try:
                parse_question(member.content)
            except BrokenQuestionError as error:
                broken.append(f"{member.name}.question: {error}")
        if not questions or broken:
            what = f"{len(broken)} broken questions, such as {'; '.join(broken[:_SHOWN])}" if broken else "no questions"
            raise DataError(f"{path} has {what}; fetch it again, or train on it all the same: broken ones are skipped")
        size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*.question"))
        sha256 = checksum(path)
        if self.built is not None and path.name == self.built.name and (wrong := self.built.mismatch(size, sha256)):
            raise DataError(f"{path} is not the {self.name} that is built here: {wrong}; delete it and fetch it again")
        say(f"{path}: {questions} questions in {', '.join(SPLIT_FOLDERS)}")
        return [CheckedFile(path, size, sha256)]

    def _missing(self, root: Path, name: str) -> DataError:
        forms = ", ".join((*SUFFIXES[1:], "or a folder"))
        setting = " (task.archive names it)" if self.name == "cloze" else ""
        return DataError(
            f"{root / 'cloze' / name}{SUFFIXES[0]} is not there (nor {forms} of that name){setting}; {self.where}"
        )
