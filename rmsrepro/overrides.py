"""What a command line may override: fields by value, groups by the name of an option, and nothing removed."""

from __future__ import annotations

from hydra.core.override_parser.overrides_parser import OverridesParser

from rmsrepro.conf import conf_dir, option_names
from rmsrepro.errors import ConfigError

#: Fields that a group's option sets: choosing it brings the other fields that belong to it.
_CHOSEN_BY_GROUP = {"task.name": "task", "norm.name": "norm", "data.name": "data"}


def check_overrides(overrides: list[str]) -> frozenset[str]:
    """Return the keys that `overrides` set.

    Raises ConfigError for an override that would leave the configuration without a part or with an unfit one, and
    Hydra's own errors for one that cannot be read.
    """
    keys = set()
    for override, text in zip(OverridesParser.create().parse_overrides(overrides), overrides, strict=True):
        key = override.key_or_group
        keys.add(key)
        if key.startswith(("hydra.", "hydra/")):
            continue
        if not key:
            raise ConfigError(f"{text}: write key=value")
        if override.is_delete():
            raise ConfigError(f"{text}: nothing can be removed; give {key} another value instead")
        if key == "recipe":
            raise ConfigError(f"{text}: a recipe belongs to its task; set fields themselves, such as train.lr=0.001")
        if key in _CHOSEN_BY_GROUP:
            raise ConfigError(f"{text}: write {_CHOSEN_BY_GROUP[key]}={override.value()}, which sets what goes with it")
        if _is_group(key) and not override.is_sweep_override():
            value = override.value()
            if not isinstance(value, str):
                raise ConfigError(f"{text}: expected a file of conf/{key}: {', '.join(option_names(key))}")
    return frozenset(keys)


def _is_group(key: str) -> bool:
    return key.isidentifier() and (conf_dir() / key).is_dir()
