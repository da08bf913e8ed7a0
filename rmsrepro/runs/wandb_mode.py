"""Whether Weights & Biases runs online, offline or not at all, settled without ever asking anybody."""

import netrc
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from rmsrepro.errors import ConfigError

WandbMode = Literal["online", "offline", "disabled"]

_ALLOWED = ("auto", *get_args(WandbMode))
_OLD_NAMES = {"run": "online", "dryrun": "offline"}
_KEY_VARIABLES = ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")
_PUBLIC_HOST = "api.wandb.ai"


def resolve_mode(
    mode: str, environment: Mapping[str, str], base_url: str | None = None
) -> tuple[WandbMode, str | None]:
    """Return the mode to use and, when that is not what was asked for, a sentence that says why.

    ``auto`` follows $WANDB_MODE if it is set, else it means online with an API key and offline without.
    ``base_url`` is the server whose key is looked up. Raises ConfigError for an unknown ``mode``.
    """
    if mode not in _ALLOWED:
        raise ConfigError(f"track.mode: got {mode!r}, allowed are {', '.join(_ALLOWED)}")
    asked = mode
    if mode == "auto":
        wish = environment.get("WANDB_MODE", "").strip().lower()
        asked = _OLD_NAMES.get(wish, wish) or "auto"
        if asked not in _ALLOWED:
            return (
                "offline",
                f"W&B works offline: WANDB_MODE is {wish!r}, expected one of {', '.join(_ALLOWED)}",
            )
    if asked in ("offline", "disabled"):
        return cast(WandbMode, asked), None
    if has_api_key(environment, base_url):
        return "online", None
    if asked == "auto":
        return "offline", None
    return "offline", "W&B works offline: online was asked for, but there is no API key; set WANDB_API_KEY"


def has_api_key(environment: Mapping[str, str], base_url: str | None = None) -> bool:
    """Say whether the environment or a readable netrc file holds a key; a broken netrc counts as none."""
    if any(environment.get(name) for name in _KEY_VARIABLES):
        return True
    urls = (base_url, environment.get("WANDB_BASE_URL"))
    hosts = {_PUBLIC_HOST, *(urlsplit(url).netloc for url in urls if url)}
    named = environment.get("NETRC")
    for candidate in (named,) if named else ("~/.netrc", "~/_netrc"):
        try:
            entries = netrc.netrc(Path(candidate).expanduser()).hosts
        except (OSError, RuntimeError, UnicodeDecodeError, netrc.NetrcParseError):
            continue
        if any(entries[host][2] for host in hosts if host in entries):
            return True
    return False
