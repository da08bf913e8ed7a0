"""Lines of large text files, block by block: the same lines however a file was saved."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rmsrepro.data.files import open_maybe_compressed
from rmsrepro.data.text import not_utf8

_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class FileFacts:
    """What one reading of a file tells; size in bytes and SHA-256 are those of its lines, each ended by a line feed."""

    lines: int
    size: int
    sha256: str
    byte_order_mark: bool
    carriage_returns: int
    """Lines that ended in CR LF."""


def examine(path: Path) -> FileFacts:
    """Read a whole file, plain, .gz or .xz, in constant memory.

    Raises:
        DataError: it is damaged, or not UTF-8; the text then names line and byte offset.
    """
    digest, lines, size, carriage_returns, offset = hashlib.sha256(), 0, 0, 0, 0
    byte_order_mark = False
    for raw in _whole_lines(path):
        try:
            codecs.utf_8_decode(raw, "strict", True)
        except UnicodeDecodeError as error:
            line = lines + raw.count(b"\n", 0, error.start) + 1
            raise not_utf8(path, line, offset + error.start, raw[error.start], error.reason) from error
        byte_order_mark |= offset == 0 and raw.startswith(codecs.BOM_UTF8)
        offset += len(raw)
        carriage_returns += raw.count(b"\r\n")
        clean = _clean(raw, first=lines == 0)
        digest.update(clean)
        size += len(clean)
        lines += clean.count(b"\n")
    return FileFacts(lines, size, digest.hexdigest(), byte_order_mark, carriage_returns)


def read_lines(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of several files, one after the other, as UTF-8 without their ends.

    Lines end at a line feed and nowhere else; a byte-order mark at the start of a file and the carriage returns of
    Windows line ends are no part of the text; a last line needs no line feed.
    """
    for path in paths:
        first = True
        for raw in _whole_lines(path):
            if clean := _clean(raw, first):
                yield from clean.removesuffix(b"\n").split(b"\n")
            first = False


def blocks(lines: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    """Yield `size` lines at a time; the last block may be shorter."""
    while block := list(islice(lines, size)):
        yield block


def _clean(raw: bytes, first: bool) -> bytes:
    if first:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    clean = raw.replace(b"\r\n", b"\n")
    return clean if clean.endswith(b"\n") or not clean else clean + b"\n"


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield pieces of a file that end where a line ends; the last one may lack its line feed."""
    rest: list[bytes] = []
    with open_maybe_compressed(path) as file:
        while block := file.read(_BLOCK_BYTES):
            head, line_feed, tail = block.rpartition(b"\n")
            if not line_feed:
                rest.append(block)
                continue
            yield b"".join([*rest, head, line_feed])
            rest = [tail] if tail else []
    if rest:
        yield b"".join(rest)
