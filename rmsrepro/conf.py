"""Where the YAML files of conf/ lie: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rmsrepro.errors import ConfigError, single_line


@cache
def conf_dir() -> Path:
    """Return the absolute path of conf/, wherever the command was started from."""
    package = Path(__file__).resolve().parent
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def load_yaml(name: str) -> dict[str, Any]:
    """Read one file of conf/ as plain values; raises ConfigError, in one line, for one that cannot be read."""
    try:
        values = parse_yaml((conf_dir() / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"conf/{name}: cannot be read ({error.strerror})") from error
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        raise ConfigError(f"conf/{name}: not valid YAML ({single_line(error)})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"conf/{name}: expected a mapping, lines such as `key: value`")
    return values


def parse_yaml(text: str) -> Any:
    """Return what a configuration's text says, in values of the caller's own; raises YAML's and OmegaConf's errors.

    Parsing takes 10 ms, and a report asks for the same few texts thousands of times.
    """
    return deepcopy(_parsed(text))


@cache
def _parsed(text: str) -> Any:
    try:
        # OmegaConf reads 1e-8 as the number that it is; plain YAML takes it for text.
        return OmegaConf.to_container(OmegaConf.create(text))
    except AssertionError as error:  # OmegaConf's word for a text that is a single value
        raise YAMLError("a single value, where lines such as `key: value` are expected") from error


def option_names(group: str) -> list[str]:
    """List the options of one group of conf/, such as the norms."""
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def load_preset(name: str) -> dict[str, Any]:
    """Read the norm semantics of one code base, a file of conf/norm/preset."""
    known = option_names("norm/preset")
    if name not in known:
        raise ConfigError(f"norm.preset={name}: known presets are {', '.join(known)}")
    return load_yaml(f"norm/preset/{name}.yaml")
