"""Where data lives on this machine: one folder per data set below the data root."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from rmsrepro.errors import DataError
from rmsrepro.paths import expanded

ENVIRONMENT_VARIABLE = "RMSREPRO_DATA"
CACHE_VARIABLE = "RMSREPRO_CACHE"
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
        origin = "data.root" if configured else ENVIRONMENT_VARIABLE
        root = (launch_dir or Path.cwd()) / expanded(named, origin)
        if root.exists() and not root.is_dir():
            raise DataError(f"{origin} is {root}, which is a file; it must be a folder")
        return root.resolve()

    return _first_writable("data", fallback, _WAY_OUT)


def prepared_root(fallback: Path | None = None, *, launch_dir: Path | None = None) -> Path:
    """Return the folder of what is made of data, such as encoded text: $RMSREPRO_CACHE, else the user's cache.

    It is not below the data root, which may be shared or read-only. With neither to be written it is `fallback`.

    Raises:
        DataError: none of them can be written.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return ((launch_dir or Path.cwd()) / expanded(named, CACHE_VARIABLE)).resolve()
    return _first_writable("prepared", fallback, f"set {CACHE_VARIABLE}=DIR to a folder that can be written")


def _first_writable(name: str, fallback: Path | None, way_out: str) -> Path:
    reasons = []
    for candidate in (Path(platformdirs.user_cache_dir("rmsrepro", appauthor=False)) / name, fallback):
        if candidate is None:
            continue
        reason = _why_not_writable(candidate)
        if reason is None:
            return candidate.absolute()
        reasons.append(f"{candidate}: {reason}")
    raise DataError(f"no folder for {name} can be written ({'; '.join(reasons)}); {way_out}")


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
