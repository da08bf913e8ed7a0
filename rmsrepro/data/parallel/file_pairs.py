"""Pairs of files that are translations of each other, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rmsrepro.data.files import SUFFIXES, find_split_file, not_writable, sha256_hex, state_of
from rmsrepro.data.parallel.lines import FileFacts, examine
from rmsrepro.data.root import CACHE_VARIABLE
from rmsrepro.errors import DataError
from rmsrepro.runs.atomic import read_json, write_json_atomic


class MissingFileError(DataError):
    """A file that is not there; a damaged one is a plain DataError."""


@dataclass(frozen=True)
class FilePair:
    """The files of one split, or of one part of it, source first."""

    stem: str
    source: Path
    target: Path

    @property
    def paths(self) -> tuple[Path, Path]:
        """Both files."""
        return self.source, self.target


@dataclass(frozen=True)
class ExaminedPair:
    """A pair of files with what reading them told."""

    files: FilePair
    source: FileFacts
    target: FileFacts

    @property
    def lines(self) -> int:
        """Lines of either file."""
        return self.source.lines

    @property
    def sides(self) -> tuple[FileFacts, FileFacts]:
        """Source and target."""
        return self.source, self.target


def find_pair(folders: Sequence[Path], stem: str, languages: tuple[str, str]) -> FilePair:
    """Return `<stem>.<language>` of both languages, plain, .gz or .xz, from the first folder that has both.

    Raises:
        MissingFileError: no folder has both; the text names the first file that is not there.
    """
    absent = None
    for folder in folders:
        found = [find_split_file(folder, f"{stem}.{language}") for language in languages]
        if found[0] and found[1]:
            return FilePair(stem, found[0], found[1])
        absent = absent or folder / f"{stem}.{languages[0] if found[0] is None else languages[1]}"
    raise MissingFileError(f"{absent} is not there (nor {' or '.join(filter(None, SUFFIXES))})")


def examine_pair(files: FilePair, memory: Path) -> ExaminedPair:
    """Read both files, or recall what reading them told while its size and times are the same.

    `memory` is the folder of what is recalled.

    Raises:
        DataError: a file is damaged, empty or not UTF-8, or the two have different numbers of lines.
    """
    source, target = (_recall(path, memory) for path in files.paths)
    if source.lines != target.lines:
        raise DataError(
            f"{files.source} has {source.lines} lines and {files.target} has {target.lines}: line n of one must "
            "translate line n of the other, blank lines included"
        )
    if not source.lines:
        raise DataError(f"{files.source} is empty: expected one sentence a line")
    return ExaminedPair(files, source, target)


def _recall(path: Path, memory: Path) -> FileFacts:
    name = str(path.resolve())
    try:
        same = {"path": name, **state_of(path)}
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    record = memory / f"{sha256_hex(name.encode())[:16]}.json"
    if record.is_file():
        known = read_json(record)
        if known.get("file") == same:
            return FileFacts(**known["facts"])
    facts = examine(path)
    try:
        memory.mkdir(parents=True, exist_ok=True)
        write_json_atomic(record, {"file": same, "facts": asdict(facts)})
    except OSError as error:
        raise not_writable(record, error, CACHE_VARIABLE) from error
    return facts
