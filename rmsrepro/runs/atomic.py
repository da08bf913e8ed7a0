"""Files that are either whole or not there, and JSON that any reader accepts."""

import json
import math
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rmsrepro.errors import DataError

TEMPORARY_SUFFIX = ".tmp"


@contextmanager
def atomic_writer(path: Path) -> Generator[IO[bytes]]:
    """Open a temporary file beside ``path`` that takes its place only when the block ends without an error.

    The bytes are on disk before the rename, so a crash leaves the old file or the new one, never a part.
    A device or a pipe, such as /dev/stdout, is written to as it is: the rename would put a file in its place.
    Raises the operating system's OSError unchanged (disk full, read-only file system, no permission).
    """
    path = Path(path)
    if _is_stream(path):
        with path.open("ab") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _is_stream(path: Path) -> bool:
    """Say whether this is a device, a pipe or a name that the system has for an open file, such as /dev/fd/1."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return True
    return path.is_symlink() and path.absolute().parts[1] in ("dev", "proc")


def write_bytes_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, replacing what was there in one step; raises OSError."""
    with atomic_writer(path) as file:
        file.write(data)


def write_json_atomic(path: Path, obj: Any) -> None:
    """Write ``obj`` as indented JSON (see `to_json`) in one step; raises OSError, TypeError."""
    write_bytes_atomic(path, (to_json(obj, indent=2) + "\n").encode())


def append_jsonl(file: IO[bytes], row: dict[str, Any]) -> None:
    """Append ``row`` as one JSON line to a file opened with ``open("ab", buffering=0)``.

    Unbuffered, so the line has left this process when the call returns. Raises OSError.
    """
    line = memoryview((to_json(row) + "\n").encode())
    while line:
        line = line[file.write(line) :]


def to_json(obj: Any, indent: int | None = None) -> str:
    """Encode as strict JSON; non-finite floats become "NaN", "Infinity" and "-Infinity", which float() reads.

    Paths become strings, zero-dimensional arrays and tensors numbers. Raises TypeError for anything else.
    """
    return json.dumps(_plain(obj), indent=indent, allow_nan=False, ensure_ascii=False)


def _plain(obj: Any) -> Any:
    if obj is None or isinstance(obj, str | bool | int):
        return obj
    if isinstance(obj, float):
        if math.isfinite(obj):
            return obj
        return "NaN" if math.isnan(obj) else ("Infinity" if obj > 0 else "-Infinity")
    if isinstance(obj, dict):
        return {str(key): _plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_plain(value) for value in obj]
    if isinstance(obj, Path):
        return str(obj)
    if callable(getattr(obj, "item", None)):
        return _plain(obj.item())
    raise TypeError(f"cannot write a {type(obj).__name__} as JSON: {obj!r}")


def read_json(path: Path) -> Any:
    """Read one JSON value; raises OSError, and DataError naming the file if it is not JSON."""
    path = Path(path)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); delete the file and repeat the run") from error


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a JSON-lines file, without a last line that was cut short when its writer died.

    Raises OSError, and DataError naming file and line if any other line is not a JSON object.
    """
    path = Path(path)
    lines = path.read_bytes().splitlines()
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        elif number < len(lines):
            raise DataError(f"{path}, line {number}: expected a JSON object, found {line[:60]!r}")
    return rows


def _sync_directory(directory: Path) -> None:
    """Make a rename survive a power cut where the file system allows syncing a directory."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
