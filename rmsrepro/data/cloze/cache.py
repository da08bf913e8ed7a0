"""Open a cloze archive: parsed the first time, from the cache ever after.

The cache's key is the archive's checksum, which is remembered by size and time: the second start reads neither the
archive nor the questions. Nothing is written beside the archive, which may lie on somebody else's disk.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock

from rmsrepro.data.cloze.archive import checksum, fingerprint
from rmsrepro.data.cloze.parse import parse_archive
from rmsrepro.data.cloze.store import FORMAT, META, ClozeStore, load_store
from rmsrepro.data.files import not_writable, write_atomically
from rmsrepro.data.progress import say
from rmsrepro.data.root import CACHE_VARIABLE


def open_archive(archive: Path, sentences: int | None, cache: Path) -> ClozeStore:
    """Return the parsed archive, passages cut to `sentences` sentences; it is parsed into the folder `cache` once.

    Raises:
        DataError: the archive is damaged or holds no questions, or the cache cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(cache, error, CACHE_VARIABLE) from error
    with FileLock(cache / f".{hashlib.sha256(str(archive).encode()).hexdigest()[:16]}.lock"):
        sha256 = _remembered_checksum(cache, archive)
        folder = cache / f"{sha256[:16]}-{'all' if sentences is None else sentences}-v{FORMAT}"
        if not (folder / META).is_file():
            _parse_into(folder, archive, sentences, sha256)
        return load_store(folder, archive)


def _remembered_checksum(cache: Path, archive: Path) -> str:
    note = cache / "checksums" / f"{hashlib.sha256(str(archive.resolve()).encode()).hexdigest()[:16]}.json"
    now = fingerprint(archive)
    try:
        known = json.loads(note.read_text())
        if known["fingerprint"] == now:
            return known["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is known of it yet
    sha256 = checksum(archive)
    write_atomically(note, json.dumps({"archive": str(archive), "fingerprint": now, "sha256": sha256}).encode())
    return sha256


def _parse_into(folder: Path, archive: Path, sentences: int | None, sha256: str) -> None:
    """Parse beside `folder` and rename, so that it is never half there."""
    say(f"parsing {archive} into {folder}, once")
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        parse_archive(archive, temporary, sentences, sha256)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except OSError as error:
        raise not_writable(folder, error, CACHE_VARIABLE) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
