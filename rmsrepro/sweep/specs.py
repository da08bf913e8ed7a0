"""What a sweep consists of: every run of its plans, composed and checked before the first one starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rmsrepro.cli_errors import is_usage_error, one_line
from rmsrepro.compose import compose_config
from rmsrepro.config import Config
from rmsrepro.errors import ConfigError
from rmsrepro.runs.rundir import RunDir
from rmsrepro.sweep.options import Options
from rmsrepro.sweep.plan import Plan, load_plan, strongest
from rmsrepro.train.place import run_directory


@dataclass(frozen=True)
class Spec:
    """One run: where it belongs, what it overrides and where it lies."""

    plan: str
    """The plan that the run is recorded under."""
    arm: str
    seed: int
    overrides: tuple[str, ...]
    config: Config
    rundir: RunDir

    @property
    def name(self) -> str:
        """Name the run for people."""
        return f"{self.plan}/{self.arm} seed {self.seed}"

    @property
    def words(self) -> list[str]:
        """Return the run's command, without the interpreter's path."""
        return ["python", "-m", "rmsrepro", *self.overrides]


def build_specs(options: Options) -> list[Spec]:
    """Compose every run of the plans, each run once; touches no file of theirs.

    They come seed by seed, so that a plan cut short has whole sets of arms.
    Raises ConfigError for whatever one of the runs would be refused for. Free of torch.
    """
    found: dict[object, Spec] = {}
    for name in options.plans:
        for spec in _of_plan(load_plan(name), options):
            same = found.setdefault(spec.rundir.path, spec)
            if same.plan == spec.plan and same.arm != spec.arm:
                given = " ".join(options.overrides) or f"size={options.size}"
                raise ConfigError(f"plan={name}: arms {same.arm} and {spec.arm} are one and the same run with {given}")
    return list(found.values())


def _of_plan(plan: Plan, options: Options) -> Iterable[Spec]:
    for name in options.arms or ():
        plan.arm(name)
    arms = [arm for arm in plan.arms if options.arms is None or arm in options.arms]
    grouped = any(override.startswith("track.group=") for override in options.overrides)
    group = [] if grouped else [f"track.group=plan:{plan.runs_plan}"]
    seeds = plan.seeds if options.seeds is None else options.seeds
    composed = {}
    for arm in arms:
        overrides = strongest([*plan.overrides(arm, options.size), *options.overrides, *group])
        composed[arm] = overrides, compose_checked(_what(plan, arm), [*overrides, f"seed={seeds[0]}"])
    for seed in seeds:
        for arm, (overrides, config) in composed.items():
            words = [*overrides, f"seed={seed}"]
            seeded = _with_seed(config, seed, words, _what(plan, arm))
            yield Spec(plan.runs_plan, arm, seed, tuple(words), seeded, run_directory(seeded))


def _with_seed(config: Config, seed: int, words: list[str], what: str) -> Config:
    if seed != config.seed and any("${" in word for word in words):  # what it stands for may depend on the seed
        return compose_checked(what, words)
    # Nothing else depends on the seed; composing anew would take a fifth of a second a run.
    seeded = replace(config, seed=seed)
    seeded.validate()
    return seeded


def _what(plan: Plan, arm: str) -> str:
    return f"plan={plan.name}, arm {arm}"


def compose_checked(what: str, overrides: list[str]) -> Config:
    """Compose one run; whatever its command would be refused for is a ConfigError that says for `what`."""
    try:
        return compose_config(overrides)
    except Exception as error:
        if isinstance(error, ConfigError) or is_usage_error(error):
            said = str(error) if isinstance(error, ConfigError) else one_line(error, overrides)
            raise ConfigError(f"{what}: {said}") from error
        raise
