"""Read a text file into lines, the same lines however the file was saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.files import read_maybe_compressed, sha256_hex
from rmsrepro.errors import DataError

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Text:
    """The lines of one file; size in bytes and SHA-256 are those of the lines, each ended by one line feed."""

    path: Path
    lines: list[str]
    size: int
    sha256: str


def read_text(path: Path) -> Text:
    """Return the lines of a UTF-8 file, plain, .gz or .xz.

    Lines end at a line feed and nowhere else (not at U+2028 and its like, as `str.splitlines` would have it). A
    byte-order mark at the start and the carriage returns of Windows line ends are no part of the text.

    Raises:
        DataError: the file is empty, damaged or not UTF-8; the text then names line and byte offset.
    """
    content = read_maybe_compressed(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise not_utf8(path, line, error.start, content[error.start], error.reason) from error
    text = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n")
    if not text.strip():
        raise DataError(f"{path} is empty: expected text, one sentence or paragraph a line")
    lines = text.removesuffix("\n").split("\n")
    same_for_all = "\n".join([*lines, ""]).encode()
    return Text(path, lines, len(same_for_all), sha256_hex(same_for_all))


def not_utf8(path: Path, line: int, offset: int, byte: int, reason: str) -> DataError:
    """Return the one line for a file that is in another encoding; `line` counts from 1, `offset` from 0."""
    return DataError(
        f"{path} is not UTF-8: line {line}, byte offset {offset} has the byte 0x{byte:02X} ({reason}); "
        "convert the file to UTF-8, for example with iconv"
    )
