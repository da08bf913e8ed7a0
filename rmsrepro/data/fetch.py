"""Download one file: bounded retries, resumed where it stopped, named only when its checksum is right."""

from __future__ import annotations

import hashlib
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from rmsrepro.data.files import not_writable
from rmsrepro.data.progress import byte_progress

_CHUNK_BYTES = 1 << 18
_WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}
_CONTENT_RANGE = re.compile(r"bytes (?P<first>\d+)-\d+/(?P<total>\d+|\*)")
_USER_AGENT = "rmsrepro (https://arxiv.org/abs/1910.07467)"


class SourceUnavailable(Exception):
    """This source cannot give the data; the text is a short reason, and the next source may do better."""


@dataclass(frozen=True)
class RemoteFile:
    """A file to download; `checksum` is "<hashlib name>:<hex>"."""

    url: str
    size: int  # bytes
    checksum: str

    @property
    def host(self) -> str:
        """The name people know the source by."""
        return urllib.parse.urlsplit(self.url).hostname or "this machine"


@dataclass(frozen=True)
class Patience:
    """How long a download may take to fail: a host that never answers costs `open_s` seconds, once."""

    open_s: float = 6.0  # name lookup, connection and response headers together
    read_s: float = 15.0  # silence in the middle of a file
    attempts: int = 4  # in a row that bring no byte
    attempts_in_all: int = 40
    backoff_s: float = 0.5  # before the next attempt, doubled for each in a row that brought no byte


def read_url(url: str) -> bytes:
    """Return what `url` holds; one attempt, for callers that have another source.

    Raises:
        SourceUnavailable: no answer, or a refusal.
    """
    try:
        with urllib.request.urlopen(url, timeout=Patience().open_s) as response:
            return response.read()
    except OSError as error:
        raise SourceUnavailable(str(getattr(error, "reason", error))) from error


def download(file: RemoteFile, to: Path, patience: Patience | None = None) -> Path:
    """Download `file` to `to`, going on from `to`.part if an earlier download left one, and return `to`.

    `file.url` may be http, https or file. The bytes are checked before `to` appears; a wrong `.part` that was
    resumed is deleted and fetched afresh, once.

    Raises:
        SourceUnavailable: no answer, a refusal, or content that is not what the checksum says.
        DataError: the folder of `to` cannot be written or is full.
    """
    patience = patience or Patience()
    part = to.with_name(f"{to.name}.part")
    try:
        if to.is_file() and mismatch(to, file) is None:
            return to
        to.parent.mkdir(parents=True, exist_ok=True)
        resumed = part.is_file() and part.stat().st_size > 0
        _fill(part, file, patience)
        wrong = mismatch(part, file)
        if wrong and resumed:
            part.unlink()
            _fill(part, file, patience)
            wrong = mismatch(part, file)
        if wrong:
            part.unlink()
            raise SourceUnavailable(wrong)
        part.replace(to)
    except OSError as error:
        raise not_writable(to, error) from error
    return to


def _fill(part: Path, file: RemoteFile, patience: Patience) -> None:
    """Append to `part` until it has `file.size` bytes."""
    have, idle = _size(part), 0  # idle: attempts in a row that brought nothing
    with byte_progress(f"{part.stem} from {file.host}", file.size, have) as show:
        for _ in range(patience.attempts_in_all):
            if have >= file.size:
                return
            reason = _append(part, have, file, patience, show)
            before, have = have, _size(part)
            idle = 0 if have > before else idle + 1
            if idle >= patience.attempts:
                raise SourceUnavailable(f"{reason}, {have} of {file.size} bytes after {idle} attempts")
            if reason:
                time.sleep(patience.backoff_s * 2**idle)
    if have < file.size:
        raise SourceUnavailable(f"broke off {patience.attempts_in_all} times, {have} of {file.size} bytes")


def _append(part: Path, start: int, file: RemoteFile, patience: Patience, show: Callable[[int], None]) -> str:
    """Ask for the bytes from `start` on and write what comes; return why it broke off, or ""."""
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = _open_within(urllib.request.Request(file.url, headers=headers), patience)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the part is longer than what the server has: not a part of this file
            part.unlink()
        elif error.code not in _WORTH_RETRYING:
            raise SourceUnavailable(f"HTTP {error.code} {error.reason}") from error
        return f"HTTP {error.code} {error.reason}"
    with response:
        at = _first_byte(response, start, file)
        with part.open("ab" if at else "wb") as out:
            while at < file.size:
                try:
                    chunk = response.read1(_CHUNK_BYTES)
                except (OSError, HTTPException) as error:
                    return f"no more data ({_short(error)})"
                if not chunk:
                    return "the connection was closed early"
                out.write(chunk)
                at += len(chunk)
                show(at)
    return ""


def _open_within(request: urllib.request.Request, patience: Patience):
    """Open the URL, giving up after `patience.open_s`: no timeout of urllib's bounds the look-up of a name,
    and its connection timeout starts again for each of a host's addresses.
    """
    outcome: queue.SimpleQueue = queue.SimpleQueue()

    def opening() -> None:
        try:
            outcome.put(urllib.request.urlopen(request, timeout=patience.read_s))
        except Exception as error:
            outcome.put(error)

    threading.Thread(target=opening, daemon=True).start()
    try:
        result = outcome.get(timeout=patience.open_s)
    except queue.Empty:
        raise SourceUnavailable(f"no answer within {patience.open_s:g} s") from None
    if isinstance(result, urllib.error.HTTPError):
        raise result
    if isinstance(result, Exception):
        raise SourceUnavailable(_short(result)) from result
    return result


def _first_byte(response, asked: int, file: RemoteFile) -> int:
    """Return the offset of the response's first byte: `asked`, or 0 when the server sends the file afresh."""
    if response.headers.get_content_type() == "text/html":
        raise SourceUnavailable("sent an HTML page instead of the file")
    start, total = 0, response.headers.get("Content-Length")
    if getattr(response, "status", None) == 206:
        _, _, span = response.headers.get("Content-Range", "").partition("bytes ")
        first, _, total = span.replace("/", "-").partition("-")[0], "", span.rpartition("/")[2]
        start = int(first) if first.isdigit() else -1
    if total and total.isdigit() and int(total) != file.size:
        raise SourceUnavailable(f"offers {total} bytes where {file.size} were expected")
    if start not in (0, asked):
        raise SourceUnavailable(f"sent bytes from {start} on where {asked} was asked")
    return start


def mismatch(path: Path, file: RemoteFile) -> str | None:
    """Say how the file at `path` differs from what is expected, or None."""
    if (size := path.stat().st_size) != file.size:
        return f"got {size} bytes where {file.size} were expected"
    algorithm, _, expected = file.checksum.partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, algorithm).hexdigest()
    return None if found == expected else f"got {algorithm} {found} where {expected} was expected"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _short(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__
