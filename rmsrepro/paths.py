"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path

from rmsrepro.errors import ConfigError


def expanded(named: str | os.PathLike[str], origin: str) -> Path:
    """Return a path with `~` and `~user` as the folders they stand for; `origin` is the setting that named it.

    Raises:
        ConfigError: there is no such user, or the user has no folder.
    """
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{origin}={named}: {Path(named).parts[0]} is no user's folder; write the whole path"
        ) from error
