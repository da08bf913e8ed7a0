"""One plain line for each way in which a command line can be wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from rmsrepro.conf import conf_dir, option_names
from rmsrepro.errors import single_line


def one_line(error: Exception, overrides: list[str]) -> str:
    """Say what is wrong with `overrides` and what to write instead, in one line."""
    for override in overrides:
        if not _parses(override):
            return f"cannot read {override}: {_quoting_hint(override)}"
    text = str(error)
    ambiguous = re.search(r"Ambiguous value for argument '(.+?)'", text)
    if ambiguous:
        override = ambiguous.group(1)
        return f"{override} names several values: add -m to run each, or {_quoting_hint(override)}"
    missing = re.search(r"Could not override '([^']+)'", text)
    if missing:
        name = missing.group(1)
        if name.startswith("norm.extra."):
            return f"{name}: this norm has no such option; its own options stand under extra in its file of conf/norm"
        return f"{name}: no such setting{_nearest(name, _settings(overrides))}; --help lists them"
    option = re.search(r"Could not (?:find|load) '(?!hydra/)([^'/]+)/([^']*)'", text)
    if option:
        group, name = option.groups()
        return f"{group}={name}: known are {', '.join(option_names(group))}"
    if error.__cause__ is not None:
        text += f": {error.__cause__}"
    return single_line(text) or type(error).__name__


def is_usage_error(error: Exception) -> bool:
    """Say whether `error` means that the command line or a file of conf/ is wrong, rather than the program."""
    from omegaconf.errors import OmegaConfBaseException

    return isinstance(error, HydraException | OmegaConfBaseException)


def _parses(override: str) -> bool:
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return False
    return True


def _quoting_hint(override: str) -> str:
    key, equals, value = override.partition("=")
    if not equals:
        return "write key=value"
    # Hydra takes a backslash as it is unless quotes follow.
    escaped = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + found[2].replace('"', '\\"'), value)
    quoted = f'{key}="{escaped}"'
    shell = "'" + quoted.replace("'", "'\\''") + "'"
    return f"quote the value: {shell}"


def _settings(overrides: list[str]) -> list[str]:
    """List every dotted setting there is with the task and norm that `overrides` choose."""
    from dataclasses import asdict

    from rmsrepro.compose import compose_config

    def walk(prefix: str, values: dict[str, Any]) -> Iterable[str]:
        for key, value in values.items():
            yield prefix + key
            if isinstance(value, dict):
                yield from walk(f"{prefix}{key}.", value)

    chosen = [override for override in overrides if override.startswith(("task=", "norm="))]
    return list(walk("", asdict(compose_config(chosen))))


def _nearest(name: str, known: list[str]) -> str:
    groups = [path.name for path in conf_dir().iterdir() if path.is_dir() and path.name != "plan"]
    close = difflib.get_close_matches(name, known + groups, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""
