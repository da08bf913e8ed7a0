"""One process at a time in a folder of data."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rmsrepro.data.files import not_writable
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

LOCK_WAIT_S = 3600.0


@contextmanager
def locked(folder: Path, doing: str, setting: str = "data.root or RMSREPRO_DATA") -> Generator[None]:
    """Make `folder` and hold its lock, which the system takes back from a process that dies.

    `doing` completes "another process is ... <folder>" for whoever has to wait, such as "fetching x into"; `setting` is
    what chooses the folder.

    Raises:
        DataError: the folder cannot be written, or the lock is held for longer than LOCK_WAIT_S seconds.
    """
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is {doing} {folder}; waiting for it")
            lock.acquire(timeout=LOCK_WAIT_S)
    except Timeout as error:
        raise DataError(
            f"{folder / '.lock'} is still held after {LOCK_WAIT_S:.0f} s; is another process hanging?"
        ) from error
    except (OSError, NotImplementedError) as error:
        raise not_writable(folder, OSError(str(error)), setting) from error
    try:
        yield
    finally:
        lock.release()
