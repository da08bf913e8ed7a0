"""Read plain, .gz and .xz files by what they contain, and write files whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from rmsrepro.errors import DataError

SUFFIXES = ("", ".gz", ".xz")
_MAGIC = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
_CHUNK_BYTES = 1 << 16
_CORRUPT = (EOFError, OSError, zlib.error, lzma.LZMAError)


def find_split_file(folder: Path, stem: str) -> Path | None:
    """Return `folder/stem`, `folder/stem.gz` or `folder/stem.xz`, the first that is there."""
    candidates = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def open_maybe_compressed(path: Path) -> BinaryIO:
    """Open a plain, gzip or xz file for reading bytes; the content tells which, and all members are read.

    Raises:
        DataError: the file cannot be opened, or is named .gz or .xz and is not. A damaged or truncated file
            raises it while it is read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(6)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    kind = next((suffix for suffix, magic in _MAGIC.items() if head.startswith(magic)), None)
    if kind is None and path.suffix in _MAGIC:
        raise DataError(
            f"{path} is named {path.suffix} but is not (it starts with {head!r}): it may be an error page or "
            "a cut download; fetch it again, or drop the suffix if it is plain text"
        )
    openers = {".gz": lambda: gzip.GzipFile(path, "rb"), ".xz": lambda: _XzStreams(path.open("rb"))}
    stream = path.open("rb") if kind is None else openers[kind]()
    return io.BufferedReader(_Readable(stream, path), buffer_size=1 << 18)


def read_maybe_compressed(path: Path) -> bytes:
    """Return the whole decompressed content of `path`; errors as `open_maybe_compressed`."""
    with open_maybe_compressed(path) as file:
        return file.read()


def state_of(path: Path) -> dict[str, int]:
    """Return what differs, without reading it, once a file's content may have changed: its size and its times.

    The time of modification alone can be set back: copies and unpacked archives may keep it.
    """
    status = path.stat()
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}


def sha256_hex(data: bytes | bytearray | memoryview) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to a temporary name beside `path`, then rename, so that `path` is never half a file.

    Raises:
        DataError: the folder cannot be written or is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError, setting: str = "data.root or RMSREPRO_DATA") -> DataError:
    """Return the one line for a folder that cannot be written, and that `setting` chooses."""
    return DataError(
        f"{path} cannot be written: {error.strerror or error}; set {setting} to a folder with room that can be written"
    )


class _XzStreams:
    """All streams of an .xz file; lzma.LZMAFile takes a damaged one behind the first for the end of the file."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of content, all of it for -1, nothing at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_CHUNK_BYTES), b""))
        content = b""
        while not content:
            packed = b""
            if self._decoder.eof:
                packed = self._next_stream()
                if not packed:
                    return b""
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            elif self._decoder.needs_input:
                packed = self._file.read(_CHUNK_BYTES)
                if not packed:
                    raise EOFError("it ends within a stream")
            content = self._decoder.decompress(packed, size)
        return content

    def _next_stream(self) -> bytes:
        """Return the first bytes behind the zeros that may pad a stream, nothing at the end of the file."""
        packed = self._decoder.unused_data
        while not (rest := packed.lstrip(b"\0")):
            packed = self._file.read(_CHUNK_BYTES)
            if not packed:
                return b""
        return rest

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Readable(io.RawIOBase):
    """A decompressing stream whose errors name the file."""

    def __init__(self, stream: io.BufferedIOBase | BinaryIO | _XzStreams, path: Path):
        self._stream = stream
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        chunk = self._read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        return self._read(-1)

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except _CORRUPT as error:
            raise DataError(f"{self._path} is damaged or cut short ({error}); delete it and fetch it again") from error

    def close(self) -> None:
        self._stream.close()
        super().close()
