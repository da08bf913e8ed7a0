"""One process per run directory: a file lock that the kernel lets go when its holder dies."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rmsrepro.errors import ConfigError, UserError

_ATTEMPTS = 5
_PAUSE_S = 0.05  # `is_locked` holds the lock for microseconds; a real holder keeps it for the run
_held_descriptors: set[int] = set()


class RunLockedError(UserError):
    """Another process is working in the run directory; the text names the directory, the pid and the host."""


@contextmanager
def exclusive_lock(lock_file: Path) -> Generator[None]:
    """Hold ``lock_file`` for the block, with pid, host and start time written in it for whoever else asks.

    A flock: released when the process ends in whatever way. Children made by fork drop their copy, so a
    data worker that outlives a killed trainer does not keep the run locked.
    Raises RunLockedError when it is taken, ConfigError when it cannot be written or the file system knows no locks.
    """
    with _writing(lock_file):
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _acquire(descriptor, lock_file):
            holder = read_holder(lock_file)
            raise RunLockedError(
                f"{lock_file.parent}: locked by process {holder.get('pid', '?')} on {holder.get('host', '?')}"
                f" (since {holder.get('started', '?')}); wait for it or end it, then repeat the command"
            )
        holder = {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with _writing(lock_file):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        _held_descriptors.add(descriptor)
        yield
    finally:
        _held_descriptors.discard(descriptor)
        os.close(descriptor)


def is_locked(lock_file: Path) -> bool:
    """Say whether some process holds the lock; False when the file is not there or cannot be opened."""
    try:
        descriptor = os.open(lock_file, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)


def read_holder(lock_file: Path) -> dict[str, Any]:
    """Return what the last holder wrote about itself, or nothing if that cannot be read."""
    try:
        holder = json.loads(lock_file.read_bytes())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


@contextmanager
def _writing(lock_file: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"runs.root: cannot write {lock_file} ({error.strerror});"
            " make room there, or set runs.root=DIR or RMSREPRO_RUNS to a directory that can be written"
        ) from error


def _acquire(descriptor: int, lock_file: Path) -> bool:
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE_S)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            raise ConfigError(
                f"runs.root: the file system of {lock_file.parent} has no file locks ({error.strerror});"
                " set runs.root=DIR or RMSREPRO_RUNS to a local disk"
            ) from error
        else:
            return True
    return False


def _drop_in_child() -> None:
    """Close a forked child's copies; the parent's lock stays, since closing a copy releases nothing."""
    for descriptor in _held_descriptors:
        os.close(descriptor)
    _held_descriptors.clear()


os.register_at_fork(after_in_child=_drop_in_child)
