"""Data sets whose every byte is known: whichever source gives a file, its content must have the one checksum.

A source yields the canonical files by name and content; how it wraps them (gzip, tar, pickle, PNG) is its own
business. Nothing is stored that has not been checked.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.fetch import SourceUnavailable
from rmsrepro.data.files import sha256_hex, write_atomically
from rmsrepro.data.locking import locked
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError


@dataclass(frozen=True)
class CanonicalFile:
    """A file of a data set as it is stored here, decompressed."""

    name: str
    size: int  # bytes
    sha256: str

    def mismatch(self, size: int, sha256: str) -> str | None:
        """Say what was expected and what was found, or None when they are the same."""
        if (size, sha256) == (self.size, self.sha256):
            return None
        return f"expected {self.size} bytes with sha256 {self.sha256}, found {size} with {sha256}"


@dataclass(frozen=True)
class Source:
    """A place that has a data set: `files(wanted, downloads)` yields (name, content) for the wanted names.

    `downloads` is a folder for what has to be kept meanwhile; it survives a failure, so that a download can
    go on later, and goes when all files are there.
    """

    label: str
    files: Callable[[Collection[str], Path], Iterator[tuple[str, bytes]]]


def fetch_canonical(data_set: str, folder: Path, wanted: Sequence[CanonicalFile], sources: Sequence[Source]) -> None:
    """Put the wanted files into `folder`, from the first source that has them, one process at a time.

    A second process waits, and finds the work done. Files are checked in memory and then renamed into place.

    Raises:
        DataError: no source could give them (one line with each source's reason and what to do), or `folder`
            cannot be written.
    """
    with locked(folder, f"fetching {data_set} into"):
        for leftover in folder.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        missing = {file.name: file for file in wanted if not _is_stored(folder, file)}
        if missing:
            _fetch_from_first(data_set, folder, missing, sources)
        shutil.rmtree(folder / "downloads", ignore_errors=True)


def _fetch_from_first(
    data_set: str, folder: Path, missing: dict[str, CanonicalFile], sources: Sequence[Source]
) -> None:
    """Store each of `missing`; what one source gave before it failed is kept."""
    reasons = []
    for source in sources:
        try:
            for name, content in source.files(tuple(missing), folder / "downloads"):
                if wrong := missing[name].mismatch(len(content), sha256_hex(content)):
                    raise SourceUnavailable(f"{name}: {wrong}")
                write_atomically(folder / name, content)
                del missing[name]
        except SourceUnavailable as unavailable:
            reasons.append(f"{source.label} ({unavailable})")
            say(f"{data_set} is not to be had from {source.label}: {unavailable}")
        if not missing:
            say(f"{data_set} is in {folder}, checked, from {source.label}")
            return
    raise DataError(
        f"{data_set} is not complete in {folder} and could not be fetched; tried {'; '.join(reasons)}. "
        f"Put {', '.join(missing)} there, or run `python -m rmsrepro.data fetch {data_set} --root DIR` on a "
        "connected machine, bring DIR here and set data.root=DIR (or RMSREPRO_DATA=DIR)"
    )


def _is_stored(folder: Path, file: CanonicalFile) -> bool:
    path = folder / file.name
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and file.mismatch(file.size, sha256_hex(path.read_bytes())) is None
    )
