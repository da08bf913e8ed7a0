"""The command line of a sweep, checked before anything is read or started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError
from rmsrepro.sweep.plan import load_plan

USAGE = """\
python -m rmsrepro.sweep plan=NAME,... [size=small] [seeds=1,2,3] [arms=A,B] [key=value ...]
    run what is missing of a plan, a fresh process per run: done runs are skipped, failed ones tried again
  --dry-run       list every run's state and command, and start nothing
  --status        count what is done, running and failed, and estimate the time that is left
  --json FILE     write the runs, their states and the estimate to FILE too

workers=N         runs at a time, each on its share of the processors or a GPU of its own (default: one per GPU, else 1)
launcher=local    or slurm, through submitit; slurm.time=MINUTES slurm.partition=P slurm.cpus=N slurm.gpus=N slurm.KEY=V
key=value         overrides every run, as on the command line of python -m rmsrepro: train.max_steps=100 track=none"""

LAUNCHERS = ("local", "slurm", "submitit_local")
Action = Literal["run", "dry-run", "status"]

#: Keys that the sweep decides, and what to write instead.
_DECIDED = {
    "seed": "write seeds=1,2,3",
    "task": "the plan chooses the task",
    "norm": "the plan's arms choose the norm; arms=NAME takes some of them",
    "runs.overwrite": "a sweep throws no finished run away; remove its directory to have it made again",
}
#: Of a number on the command line.
_MAX_DIGITS = 18


@dataclass
class Options:
    """What the command line says."""

    plans: list[str] = field(default_factory=list)
    size: str = "small"
    seeds: list[int] | None = None
    """None for the plan's own."""
    arms: list[str] | None = None
    """None for all."""
    launcher: str = "local"
    workers: int | None = None
    slurm: dict[str, str] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    """What every run overrides on top of its arm."""
    action: Action = "run"
    json: Path | None = None


def parse(argv: Sequence[str]) -> Options:
    """Read the command line; raises ConfigError that says what is allowed."""
    options, words = Options(), iter(argv)
    for word in words:
        key, equals, value = word.partition("=")
        if word == "--dry-run" or word == "--status":
            options.action = "dry-run" if word == "--dry-run" else "status"
        elif key == "--json":
            options.json = _output_file(value if equals else next(words, ""))
        elif word.startswith("-"):
            raise ConfigError(f"{word}: no such flag; --help lists what there is")
        elif not equals:
            raise ConfigError(f"{word}: write key=value, such as plan=table4")
        elif not _take(options, key, value):
            options.overrides.append(word)
    _check(options)
    return options


def _take(options: Options, key: str, value: str) -> bool:
    """Keep a word of the sweep's own and return True; False for one that is meant for the runs."""
    decided = _DECIDED.get(key.lstrip("+"))  # Hydra's `++seed=4` sets what `seed=4` does
    if key in ("plan", "plans"):
        options.plans += _list(key, value)
    elif key == "size":
        options.size = value
    elif key == "seeds":
        options.seeds = _seeds(value)
    elif key == "arms":
        options.arms = _list(key, value)
    elif key == "launcher":
        options.launcher = value
    elif key == "workers":
        options.workers = whole_number(key, value, "a whole number of 1 or more", least=1)
    elif key.startswith("slurm."):
        options.slurm[key.removeprefix("slurm.")] = value
    elif decided is not None:
        raise ConfigError(f"{key}={value}: {decided}")
    else:
        return False
    return True


def _check(options: Options) -> None:
    if not options.plans:
        raise ConfigError("plan: not given; write plan=NAME, a file of conf/plan such as plan=table4")
    for name in options.plans:
        load_plan(name)
    if options.size not in SIZES:
        raise ConfigError(f"size={options.size}: allowed are {', '.join(SIZES)}")
    if options.launcher not in LAUNCHERS:
        raise ConfigError(f"launcher={options.launcher}: allowed are {', '.join(LAUNCHERS)}")
    if options.slurm and options.launcher == "local":
        raise ConfigError(f"slurm.{next(iter(options.slurm))}: means nothing with launcher=local; add launcher=slurm")


def _seeds(value: str) -> list[int]:
    expected = "whole numbers of 0 or more, such as seeds=1,2,3"
    seeds = [whole_number("seeds", word, expected) for word in _list("seeds", value)]
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds={value}: each seed counts once")
    return seeds


def _list(key: str, value: str) -> list[str]:
    words = value.split(",")
    if not all(words):
        raise ConfigError(f"{key}={value}: expected names or numbers with commas between them")
    return words


def whole_number(key: str, word: str, expected: str, least: int = 0) -> int:
    """Read a whole number of `least` or more; raises ConfigError that says what of `key` is `expected`."""
    if len(word) > _MAX_DIGITS:  # Python itself reads none of thousands of digits
        raise ConfigError(f"{key}={word[:_MAX_DIGITS]}...: expected {expected}, not {len(word)} characters")
    if not word.isdecimal() or int(word) < least:
        raise ConfigError(f"{key}={word}: expected {expected}")
    return int(word)


def _output_file(name: str) -> Path:
    path = Path(name)
    if not name or name.startswith("-") or path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"--json {name}: cannot be written; name a file in a folder that is there")
    return path
