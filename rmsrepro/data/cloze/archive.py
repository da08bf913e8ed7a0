"""Where a cloze data set lies and what is in it: a folder or a tar archive of `.question` files, read as a stream."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rmsrepro.data.files import open_maybe_compressed, state_of
from rmsrepro.errors import DataError

SUFFIXES = (".tar.xz", ".tar.gz", ".tgz", ".tar")
#: The splits of a run by the folder that rc-data keeps their questions in.
SPLIT_FOLDERS = {"training": "train", "validation": "valid", "test": "test"}
_QUESTION_SUFFIX = ".question"
_LARGEST_BYTES = 1 << 24
#: Two blocks of zeros end a tar archive; nothing else in it holds as many.
_END = bytes(1024)


@dataclass(frozen=True)
class Member:
    """One `.question` file of an archive."""

    name: str
    """Its name without folders and suffix."""
    split: str | None
    """train, valid or test; None where it lies in no folder of a split."""
    content: bytes


def find_archive(root: Path, name: str) -> Path | None:
    """Return the archive or folder of the data set `name` below `root/cloze` or `root`, or None."""
    for folder in (root / "cloze", root):
        for suffix in SUFFIXES:
            if (path := folder / f"{name}{suffix}").is_file():
                return path
        if (folder / name).is_dir() and any((folder / name).rglob(f"*{_QUESTION_SUFFIX}")):
            return folder / name
    return None


def read_members(path: Path) -> Iterator[Member]:
    """Yield the questions of an archive in its order, of a folder by name; nothing is unpacked to disk.

    Raises:
        DataError: the archive is damaged, cut short or no tar archive.
    """
    yield from _read_folder(path) if path.is_dir() else _read_tar(path)


def fingerprint(path: Path) -> str:
    """Return what tells without reading it whether an archive has changed: sizes and times of its files."""
    if path.is_file():
        return f"file {state_of(path)}"
    listing = hashlib.sha256()
    for file in _question_files(path):
        listing.update(f"{file.relative_to(path)}\0{state_of(file)}\n".encode())
    return f"listing {listing.hexdigest()}"


def checksum(path: Path) -> str:
    """Return the SHA-256 of an archive, or of the names and contents of a folder's questions, in hexadecimal."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file in _question_files(path):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read_folder(path: Path) -> Iterator[Member]:
    for file in _question_files(path):
        yield _member(PurePosixPath(path.name, file.relative_to(path).as_posix()), file.read_bytes())


def _question_files(path: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(path):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(files) if _is_question(name))


def _read_tar(path: Path) -> Iterator[Member]:
    with open_maybe_compressed(path) as file:
        stream = _Tail(file)
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:  # pyrefly: ignore[bad-argument-type, no-matching-overload]
                while info := archive.next():
                    forget_members(archive)
                    name = PurePosixPath(info.name)
                    if info.isreg() and _is_question(name.name) and (content := archive.extractfile(info)):
                        yield _member(name, content.read(_LARGEST_BYTES))
            stream.require_end()
        except (tarfile.TarError, EOFError) as error:
            raise DataError(
                f"{path} is no whole tar archive ({error}): it may be a cut download or an error page; fetch it again"
            ) from error


class _Tail:
    """A stream that remembers its last bytes: tarfile takes an archive that is cut between files for a whole one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._last = stream, b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""
        data = self._stream.read(size)
        self._last = (self._last + data)[-len(_END) :]
        return data

    def require_end(self) -> None:
        """Read to the end; raises EOFError where it is not an archive's."""
        while self.read(1 << 16):
            pass
        if self._last != _END:
            raise EOFError("its end is missing")


def forget_members(archive: tarfile.TarFile) -> None:
    """Drop the headers that a stream has read or written: they grow to half a gigabyte with the paper's archive."""
    archive.__dict__["members"].clear()


def _is_question(name: str) -> bool:
    # Archives packed on a Mac hold a `._` file beside each.
    return name.endswith(_QUESTION_SUFFIX) and not name.startswith("._")


def _member(name: PurePosixPath, content: bytes) -> Member:
    return Member(name.stem, SPLIT_FOLDERS.get(name.parent.name), content)
