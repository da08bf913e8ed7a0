"""A plan: the runs that fill one table or figure, as override lists; a file of conf/plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rmsrepro.conf import load_yaml, option_names
from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError
from rmsrepro.typed import build, convert

#: Why a plan's runs at some size may be missing for good.
UNTRIED = ("too costly", "data unavailable")


@dataclass
class Untried:
    """Why nobody should expect a plan's runs at this size."""

    state: str
    why: str


@dataclass
class Arm:
    """One row's runs: what they override, and the row's name in the table."""

    overrides: list[str]
    label: str | None = None


@dataclass
class Plan:
    """The runs of one table: arms x seeds at one size, each with the task's, the size's and the arm's overrides."""

    title: str
    task: str = ""
    arms: dict = field(default_factory=dict)
    """Arm name -> its overrides; the names are the rows of the paper's table where there is one."""
    runs_of: str | None = None
    """The plan whose runs this one shows too; everything that decides the runs is that plan's."""
    only: list[str] | None = None
    """With `runs_of`: the arms to take, all if not said."""
    table: str | None = None
    """The file of results/paper that the runs fill; none for what the paper does not have."""
    columns: dict = field(default_factory=dict)
    """Without a paper's table: the columns, as in results/paper."""
    seeds: list[int] = field(default_factory=lambda: [1, 2, 3])
    common: list[str] = field(default_factory=list)
    """Overrides of every run."""
    sizes: dict = field(default_factory=dict)
    """Size -> overrides of its runs, such as the data that stand in for the paper's."""
    paper_data: str | None = None
    """The data set that the paper's numbers are about; on any other, only directions are judged."""
    untried: dict = field(default_factory=dict)
    """Size -> why its runs should not be expected: {state: too costly, why: ...}."""
    name: str = ""

    @property
    def runs_plan(self) -> str:
        """Return the plan that the runs are recorded under."""
        return self.runs_of or self.name

    def arm(self, name: str) -> Arm:
        """Return one arm; raises ConfigError listing those there are."""
        if name not in self.arms:
            raise ConfigError(f"plan={self.name}: no arm {name}; it has {', '.join(self.arms) or 'none'}")
        value = self.arms[name]
        fields = {"overrides": value} if isinstance(value, list) else value
        return build(Arm, fields, f"conf/plan/{self.name}.yaml: arms.{name}")

    def untried_at(self, size: str) -> Untried | None:
        """Return why runs of this size should not be expected, if there is a reason."""
        if size not in self.untried:
            return None
        return build(Untried, self.untried[size], f"conf/plan/{self.name}.yaml: untried.{size}")

    def overrides(self, arm: str, size: str) -> list[str]:
        """Return what one arm's runs override at this size, all but the seed; later ones are stronger."""
        _check_size(self.name, size)
        parts = [f"task={self.task}", f"size={size}", *self.common, *self.sizes.get(size, []), *self.arm(arm).overrides]
        return strongest(parts)


def plan_names() -> list[str]:
    """List the plans there are: tables first, then figures, then what the paper does not have."""
    kinds = {"table": 0, "figure": 1}
    return sorted(option_names("plan"), key=lambda name: (kinds.get(name.rstrip("0123456789"), 2), len(name), name))


def load_plan(name: str) -> Plan:
    """Read and check one plan; raises ConfigError naming the field, what was given and what is allowed."""
    plan = _read(name)
    if plan.runs_of is not None:
        if plan.runs_of not in plan_names():
            raise ConfigError(f"plan={name}: runs_of={plan.runs_of}: known plans are {', '.join(plan_names())}")
        other = _read(plan.runs_of)
        if other.runs_of is not None:
            raise ConfigError(
                f"plan={name}: runs_of={other.name}: shows the runs of {other.runs_of} itself; name that plan"
            )
        plan = _taking_runs_of(plan, _checked(other))
    return _checked(plan)


def _checked(plan: Plan) -> Plan:
    _check_seeds(plan)
    for arm in plan.arms:
        plan.arm(arm)
    for size in {**plan.sizes, **plan.untried}:
        _check_size(plan.name, size)
    for size, overrides in plan.sizes.items():
        convert(list[str], overrides, f"conf/plan/{plan.name}.yaml: sizes.{size}")
    _check_decided(plan)
    for size in plan.untried:
        state = plan.untried_at(size)
        if state is not None and state.state not in UNTRIED:
            allowed = ", ".join(UNTRIED)
            raise ConfigError(f"plan={plan.name}: untried.{size}.state={state.state}: allowed are {allowed}")
    return plan


def _read(name: str) -> Plan:
    known = plan_names()
    if name not in known:
        raise ConfigError(f"plan={name}: known plans are {', '.join(known)}")
    plan = build(Plan, {**load_yaml(f"plan/{name}.yaml"), "name": name}, f"conf/plan/{name}.yaml")
    # YAML takes an arm called 1 for a number.
    return replace(plan, arms={str(arm): value for arm, value in plan.arms.items()})


def _check_decided(plan: Plan) -> None:
    by_size = [override for overrides in plan.sizes.values() for override in overrides]
    by_arm = [override for arm in plan.arms for override in plan.arm(arm).overrides]
    for override in (*plan.common, *by_size, *by_arm):
        if override.partition("=")[0].lstrip("+") in ("task", "size", "seed"):
            raise ConfigError(
                f"conf/plan/{plan.name}.yaml: {override}: leave it out; the plan's task, size= and seeds= decide it"
            )


def _check_seeds(plan: Plan) -> None:
    if not plan.seeds or len(set(plan.seeds)) != len(plan.seeds):
        given = ",".join(map(str, plan.seeds))
        raise ConfigError(f"conf/plan/{plan.name}.yaml: seeds=[{given}]: expected one seed or more, each once")


def _taking_runs_of(plan: Plan, other: Plan) -> Plan:
    if plan.arms or plan.common or plan.sizes:
        raise ConfigError(f"plan={plan.name}: leave out arms, common and sizes: they are those of {plan.runs_of}")
    for name in plan.only or ():
        other.arm(name)
    return replace(
        plan,
        task=other.task,
        arms={name: value for name, value in other.arms.items() if plan.only is None or name in plan.only},
        seeds=other.seeds,
        common=other.common,
        sizes=other.sizes,
        paper_data=other.paper_data,
        untried=plan.untried or other.untried,
    )


def _check_size(name: str, size: str) -> None:
    if size not in SIZES:
        raise ConfigError(f"plan={name}: size={size}: allowed are {', '.join(SIZES)}")


def strongest(overrides: Sequence[str]) -> list[str]:
    """Keep only the strongest override of each key: Hydra refuses a group that is chosen twice."""
    last = {override.partition("=")[0]: override for override in overrides}
    return list(last.values())
