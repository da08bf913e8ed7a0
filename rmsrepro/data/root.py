"""Where data lives on this machine: one folder per data set below the data root."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from rmsrepro.errors import DataError

ENVIRONMENT_VARIABLE = "RMSREPRO_DATA"
_WAY_OUT = f"set data.root=DIR or {ENVIRONMENT_VARIABLE}=DIR to a folder that can be written"


def data_root(
    configured: str | os.PathLike[str] | None = None,
    fallback: Path | None = None,
    *,
    launch_dir: Path | None = None,
) -> Path:
    """Return the data root: `configured`, else $RMSREPRO_DATA, else the user's cache, else `fallback`.

    A root that somebody named is taken as it is, writable or not: data that is there can be read. A relative
    one is meant from `launch_dir`, by default the current directory (so call this before changing it).

    Raises:
        DataError: the named root is a file, or no root is named and neither the user's cache nor `fallback`
            can be written.
    """
    named = configured or os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        root = (launch_dir or Path.cwd()) / Path(named).expanduser()
        if root.exists() and not root.is_dir():
            origin = "data.root" if configured else ENVIRONMENT_VARIABLE
            raise DataError(f"{origin} is {root}, which is a file; it must be a folder")
        return root.resolve()

    reasons = []
    for candidate in (Path(platformdirs.user_cache_dir("rmsrepro", appauthor=False)) / "data", fallback):
        if candidate is None:
            continue
        reason = _why_not_writable(candidate)
        if reason is None:
            return candidate.absolute()
        reasons.append(f"{candidate}: {reason}")
    raise DataError(f"no folder for data can be written ({'; '.join(reasons)}); {_WAY_OUT}")


def _why_not_writable(folder: Path) -> str | None:
    """Try it, for permission bits say nothing about a read-only file system or about root."""
    if not folder.is_absolute():
        return "no home folder is known"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or str(error)
