"""Run directories as records: which plan's arm each belongs to, and what a record says of it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rmsrepro.compose import compose_config
from rmsrepro.conf import parse_yaml
from rmsrepro.config import SIZES, UNHASHED
from rmsrepro.errors import ConfigError, DataError
from rmsrepro.report.fields import one_line, printable, text_or_none, texts_by_name
from rmsrepro.report.records import RunRecord
from rmsrepro.runs.atomic import read_json
from rmsrepro.runs.result import read_result
from rmsrepro.runs.rundir import RunDir, find_runs
from rmsrepro.sweep.plan import Plan, load_plan, plan_names

#: Overrides that say where things lie or what is logged; a published command leaves them out.
_LOCAL = re.compile(r"[+~]{0,2}((runs|track|hydra)([./=]|$)|data\.root=|tag=|device=)")

#: Without these, a directory below the runs' root is no run that a record can be made of.
_CONFIG_KINDS = {"task": dict, "norm": dict, "data": dict, "train": dict, "size": str}
_MANIFEST_KINDS = {"hardware": dict, "git": dict, "command": str, "started": str}

_VARIANT = re.compile(r"[0-9a-f]{12}")
_SEED = re.compile(r"^seed: (\d+)$", re.MULTILINE)


def variant(values: dict[str, Any]) -> str:
    """Name a resolved configuration without seed, paths, logging, device and threads: 12 hexadecimal digits."""
    kept = {key: value for key, value in values.items() if key not in (*UNHASHED, "seed", "device")}
    kept["data"] = {key: value for key, value in kept["data"].items() if key != "root"}
    # How many threads there are is a matter of the machine, as the device is.
    kept["train"] = {key: value for key, value in kept["train"].items() if key != "threads"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_run_dirs(runs_root: Path) -> tuple[list[RunRecord], list[str]]:
    """Read every run below a root that belongs to a plan; returns the records and lines about the others."""
    records, complaints, strays = [], [], 0
    recipes: dict[str, _Recipe] = {}
    for rundir in find_runs(runs_root):
        try:
            found = _read(rundir, recipes)
        except (DataError, OSError, KeyError, TypeError, ValueError) as error:
            said = f"no key {error}" if isinstance(error, KeyError) else str(error)
            complaints.append(one_line(f"{rundir.path}: {said}"))
            continue
        records += found
        if not found:
            strays += rundir.config_yaml.is_file()  # without one it ended before its data were read
    if strays:
        complaints.append(f"{printable(str(runs_root))}: runs that are no plan's, and are shown nowhere: {strays}")
    return records, complaints


@dataclass(frozen=True)
class _Recipe:
    """What a configuration without its seed says, its name, and each plan, with its arm, that it is a run of."""

    values: dict[str, Any]
    name: str
    places: list[tuple[str, str]]


def _read(rundir: RunDir, recipes: dict[str, _Recipe]) -> list[RunRecord]:
    """Return a run's record, once for each plan that has its configuration; none for a run that is no plan's.

    `recipes` keeps what is known of configurations by their text, as thousands of runs differ in their seeds only.
    """
    state = rundir.effective_state()
    if not rundir.config_yaml.is_file():
        return []
    recipe, seed = _read_config(rundir.config_yaml, recipes)
    if not recipe.places:
        return []
    values: dict[str, Any] = {**recipe.values, "seed": seed}
    result = _result_of(rundir, values) if state == "done" else None
    manifest = _checked(printable(read_json(rundir.manifest_json)), _MANIFEST_KINDS, rundir.manifest_json)
    status = rundir.status()
    record = RunRecord(
        plan="",
        arm="",
        size=values["size"],
        seed=values["seed"],
        state=printable(state or "failed"),
        data=values["data"]["name"],
        impl=result["impl"] if result else values["impl"],
        hardware=hardware_name(manifest["hardware"], result["device"] if result else None),
        command=published_command(manifest["command"]),
        variant=recipe.name,
        started=manifest["started"],
        commit=result["commit"] if result else text_or_none(manifest["git"], "commit"),
        result=result,
        where=printable(str(rundir.path)),
        message=one_line(str(status.fields.get("message", ""))) if status else "",
        folder=rundir.path,
        data_checksums=texts_by_name(manifest, "data_checksums"),
    )
    return [replace(record, plan=plan, arm=arm) for plan, arm in recipe.places]


def _result_of(rundir: RunDir, values: dict[str, Any]) -> dict[str, Any]:
    """Return a run's result; raises DataError where it is another run's, as after files were copied by hand."""
    result = printable(read_result(rundir.result_json))
    own = {"task": values["task"]["name"], "norm": values["norm"]["name"], "data": values["data"]["name"]}
    for key, value in {**own, "size": values["size"], "seed": values["seed"]}.items():
        if result[key] != value:
            raise DataError(f"{rundir.result_json}: {key} is {result[key]}, config.yaml says {value}; repeat the run")
    return result


def _read_config(path: Path, recipes: dict[str, _Recipe]) -> tuple[_Recipe, int]:
    """Return a run's configuration and seed; raises DataError."""
    text = path.read_text()
    found = _SEED.search(text)
    if found is None:
        raise DataError(f"{path}: it has no seed")
    text = _SEED.sub("", text, count=1)
    if text not in recipes:
        values = _checked_config(text, path)
        name = variant(values)
        recipes[text] = _Recipe(values, name, _places_of(values, name))
    return recipes[text], int(found[1])


def _checked_config(text: str, path: Path) -> dict[str, Any]:
    try:
        values = _checked(parse_yaml(text), _CONFIG_KINDS, path)
    except (YAMLError, OmegaConfBaseException) as error:
        raise DataError(f"{path}: not valid YAML ({error})") from error
    if values["size"] not in SIZES:
        raise DataError(f"{path}: size is {values['size']}; allowed are {', '.join(SIZES)}")
    return values


def _checked(values: Any, kinds: dict[str, type], path: Path) -> dict[str, Any]:
    """Return `values`, a mapping with `kinds` of values under some keys; raises DataError."""
    for key, kind in kinds.items():
        if not isinstance(values, dict) or not isinstance(values.get(key), kind):
            raise DataError(f"{path}: {key} is missing or {'no mapping' if kind is dict else 'no text'}")
    return values


def hardware_name(hardware: dict[str, Any], device: str | None) -> str:
    """Name what a run was computed on, without the machine's own name: the GPU, or the processor and its cores."""
    if device is not None and device in (hardware.get("gpus") or []):
        return device
    name, cores = device or hardware.get("cpu") or "CPU", hardware.get("usable_cores") or hardware.get("logical_cores")
    return f"{name}, {cores} cores" if cores else str(name)


def published_command(command: str) -> str:
    """Drop paths, logging and device from a run's command, which are nobody else's business."""
    return shlex.join(part for part in shlex.split(command) if not _LOCAL.match(part))


def _places_of(values: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """Return each plan, with its arm, that a resolved configuration is a run of: two plans may share runs."""
    found = []
    norm, size = f"norm={values['norm']['name']}", values["size"]
    for plan in _plans_of(values["task"]["name"]):
        for arm in plan.arms:
            # Composing takes a fifth of a second, so arms of another norm are not; one may leave it to the default.
            norms = [override for override in plan.overrides(arm, size) if override.startswith("norm=")]
            if norms in ([], [norm]) and arm_variant(plan.name, arm, size) == name:
                found.append((plan.name, arm))
                break
    return found


def is_variant(name: str) -> bool:
    """Tell whether `variant` gives such names; what a line written by hand has instead says nothing of its recipe."""
    return _VARIANT.fullmatch(name) is not None


@cache
def arm_variant(plan: str, arm: str, size: str) -> str | None:
    """Name the configuration that an arm's runs have today; None where its plan or task knows no such runs.

    It takes a tenth of a second, once for an arm and size.
    """
    if plan not in plan_names() or arm not in load_plan(plan).arms:
        return None
    try:
        return variant(asdict(compose_config(load_plan(plan).overrides(arm, size))))
    except Exception as error:
        from rmsrepro.cli_errors import is_usage_error

        if isinstance(error, ConfigError) or is_usage_error(error):
            return None  # the task does not know a setting that the plan needs, so no run can be this arm's
        raise


@cache
def _plans_of(task: str) -> tuple[Plan, ...]:
    plans: Iterable[Plan] = (load_plan(name) for name in plan_names())
    return tuple(plan for plan in plans if plan.task == task and plan.runs_of is None)
