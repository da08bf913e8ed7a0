"""From conf/ and the command line to one typed configuration.

Hydra composes the files and the overrides. Then, in this order, each stronger than the one before: the norm's own
file, its code base's preset, the task's recipe (what the task sets for this size, norm or model), the command line.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rmsrepro.conf import conf_dir, load_preset, option_names
from rmsrepro.config import Config, TaskConfig
from rmsrepro.errors import ConfigError
from rmsrepro.overrides import check_overrides
from rmsrepro.paths import expanded
from rmsrepro.typed import build


def register_defaults() -> None:
    """Give Hydra every field with its default, so that a name that does not exist is refused while composing."""
    defaults = asdict(Config())
    # A task's fields are the ones that its own file lists.
    del defaults["task"]
    ConfigStore.instance().store(name="defaults", node={**defaults, "recipe": []})


def compose_config(overrides: list[str]) -> Config:
    """Compose and check one run's configuration from override strings such as `norm=layernorm`.

    Raises ConfigError, or Hydra's and OmegaConf's own errors, which `rmsrepro.cli_errors` turns into one line.
    """
    check_overrides(overrides)
    register_defaults()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return finish(compose("config", overrides=overrides), overrides)


def finish(cfg: DictConfig, overrides: list[str]) -> Config:
    """Apply recipe and preset below the command line, then build and validate the typed configuration."""
    values: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # pyrefly: ignore[bad-assignment]
    values.pop("hydra", None)
    given = check_overrides(overrides)
    recipe = values.pop("recipe")
    by_recipe = _apply_recipe(values, recipe, given)
    preset = get(values, "norm.preset")
    if preset is not None:
        for key, value in load_preset(str(preset)).items():
            if not _covers(given | by_recipe, f"norm.{key}"):
                put(values, f"norm.{key}", value)
    task_values = values.pop("task")
    config = build(Config, values)
    config.task = build(task_config_class(str(task_values["name"])), task_values, "task")
    _anchor_paths(config)
    config.validate()
    return config


def task_config_class(name: str) -> type[TaskConfig]:
    """Return the configuration class of a task: `Config` in `rmsrepro.tasks.<name>.config`."""
    try:
        return importlib.import_module(f"rmsrepro.tasks.{name}.config").Config
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rmsrepro.tasks."):
            raise
        raise ConfigError(f"task={name}: known tasks are {', '.join(option_names('task'))}") from error


def _anchor_paths(config: Config) -> None:
    """Make relative folders absolute: they are meant from where the command was started, wherever Hydra changes to."""
    launched_from = Path(HydraConfig.get().runtime.cwd) if HydraConfig.initialized() else Path.cwd()
    if config.data.root is not None:
        config.data.root = str(launched_from / expanded(config.data.root, "data.root"))
    if config.runs.root is not None:
        config.runs.root = str(launched_from / expanded(os.path.expandvars(config.runs.root), "runs.root"))


def _covers(keys: frozenset[str], key: str) -> bool:
    """Say whether one of `keys` sets `key`, itself or the group around it."""
    # A bare `norm=...` chooses a file of conf/norm; it is no word on any single field.
    groups = (other for other in keys if other not in ("norm", "task", "data", "train"))
    return key in keys or any(key.startswith(other + ".") for other in groups)


def _apply_recipe(values: dict[str, Any], recipe: list[dict[str, Any]], given: frozenset[str]) -> frozenset[str]:
    """Apply each rule whose `when` holds; later rules win, and none overrides the command line."""
    applied = set()
    for rule in recipe:
        if all(_matches(get(values, key), wanted) for key, wanted in (rule.get("when") or {}).items()):
            for key, value in rule["set"].items():
                if not _covers(given, key):
                    put(values, key, value)
                    applied.add(key)
    return frozenset(applied)


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


def get(values: dict[str, Any], key: str) -> Any:
    """Return the value of a dotted key; a name that does not exist is an error in the recipe."""
    for part in key.split("."):
        if part not in values:
            raise ConfigError(f"recipe: there is no setting {key}")
        values = values[part]
    return values


def put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key that exists."""
    *groups, last = key.split(".")
    for part in groups:
        values = values[part]
    if last not in values:
        raise ConfigError(f"recipe: there is no setting {key}")
    values[last] = value
