"""A parallel data set below a data root: which files it consists of, and where they can be fetched from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rmsrepro.data.dataset import CheckedFile
from rmsrepro.data.fetch import SourceUnavailable
from rmsrepro.data.locking import locked
from rmsrepro.data.parallel.file_pairs import FilePair, MissingFileError, find_pair
from rmsrepro.data.parallel.lines import examine
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

Fetcher = Callable[[str, tuple[str, str], Path], None]
"""Put `<stem>.<language>` of two languages into a folder, plain or compressed; raises SourceUnavailable."""


def variants(name: str, segments: Mapping[str, int]) -> dict[str, int]:
    """Return the lines of every published variant of the file `name`."""
    return {other: lines for other, lines in segments.items() if other.startswith(name) or name.startswith(other)}


@dataclass(frozen=True)
class SplitFiles:
    """The files of each split; training may consist of several parts."""

    train: tuple[FilePair, ...]
    valid: FilePair
    tests: dict[str, FilePair]


@dataclass(frozen=True)
class ParallelDataSet:
    """The files `<stem>.<language>` of one folder below a data root, each plain, .gz or .xz.

    What is there is taken as it is; what is not is fetched where somebody publishes it.
    """

    name: str
    train: tuple[str, ...]
    """The stems of the training files, one after the other."""
    valid: str
    tests: Mapping[str, str] = field(default_factory=dict)
    """Test sets by the name they are reported under, and their stems; none of them has to be there."""
    fetcher: Fetcher | None = None
    languages: tuple[str, str] = ("en", "de")
    """What `fetch` and `check` look for."""
    segments: Mapping[str, int] = field(default_factory=dict)
    """Lines of the published files, by stem; one may have variants, such as newstest2014 and newstest2014_full."""
    variant: str = ""
    """What file names have between stem and language, such as ".lc.norm.tok"."""
    tokenized: bool = False
    """The files hold tokenised text, whatever the options say."""
    folder: Path | None = None
    """Where the files are, below the data root or absolute; by default the folder of the data set's name."""
    way_out: str = "put it there, or set data.root to the folder that has it"

    def find(self, root: Path, languages: tuple[str, str], fetched: Path) -> SplitFiles:
        """Return the files of each split, fetching what is missing; `fetched` is for when `root` cannot be written.

        Raises:
            MissingFileError: training or validation files are neither there nor to be had.
        """
        place = root / (self.folder or self.name)
        train = tuple(self._find(place, stem, languages, fetched) for stem in self.train)
        valid = self._find(place, self.valid, languages, fetched)
        return SplitFiles(train, valid, self._find_tests(place, languages, fetched))

    def _find_tests(self, place: Path, languages: tuple[str, str], fetched: Path) -> dict[str, FilePair]:
        """Return the test sets that are there or to be had; after one failed attempt no other is made."""
        tests, data_set = {}, self
        for name, stem in self.tests.items():
            try:
                tests[name] = data_set._find(place, stem, languages, fetched)
            except MissingFileError as error:
                # A test set with one side only is a slip that its user would not see in a score of the development set.
                say(f"going on without the test set {name}: {error}")
                data_set = replace(self, fetcher=None)
        return tests

    def fetch(self, root: Path) -> list[CheckedFile]:
        """Fetch every file that is not there, and verify all."""
        for stem in self._stems():
            self._find(root / self.name, stem, self.languages, root / self.name)
        return self.check(root)

    def check(self, root: Path) -> list[CheckedFile]:
        """Read every file; its lines must be as many as were published, and the same for both languages."""
        checked = []
        for stem in self._stems():
            for path in find_pair([root / self.name], stem, self.languages).paths:
                facts = examine(path)
                published = variants(stem, self.segments)
                if published and facts.lines not in published.values():
                    lengths = " or ".join(map(str, published.values()))
                    raise DataError(f"{path} has {facts.lines} lines; the published {stem} has {lengths}")
                checked.append(CheckedFile(path, facts.size, facts.sha256))
        return checked

    def _stems(self) -> Sequence[str]:
        return (*self.train, self.valid, *self.tests.values())

    def _find(self, place: Path, stem: str, languages: tuple[str, str], fetched: Path) -> FilePair:
        folders, stem = [place, fetched], stem + self.variant
        try:
            return find_pair(folders, stem, languages)
        except MissingFileError as missing:
            if self.fetcher is None:
                raise MissingFileError(f"{missing}; {self.way_out}") from missing
            reason = self._fetch(self.fetcher, stem, languages, folders)
            if reason:
                raise MissingFileError(f"{missing}, and could not be fetched ({reason}); {self.way_out}") from missing
            return find_pair(folders, stem, languages)

    @staticmethod
    def _fetch(fetcher: Fetcher, stem: str, languages: tuple[str, str], folders: Sequence[Path]) -> str:
        """Fetch into the first folder that can be written; return why that failed, or nothing."""
        reason = ""
        for folder in folders:
            try:
                with locked(folder, f"fetching {stem} into"):
                    try:
                        find_pair([folder], stem, languages)
                    except MissingFileError:
                        fetcher(stem, languages, folder)
                return ""
            except SourceUnavailable as error:
                return str(error)
            except DataError as error:  # the folder cannot be written
                reason = str(error)
        return reason
