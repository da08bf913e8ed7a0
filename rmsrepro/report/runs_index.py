"""All records at hand, each run once, by plan, arm and size; and where records contradict one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.errors import DataError
from rmsrepro.report.claims import load_table
from rmsrepro.report.curves import CurveRecord
from rmsrepro.report.fields import printable
from rmsrepro.report.records import MeasurementRecord, RunRecord, TimingRecord, best_of, read_records
from rmsrepro.report.run_curves import read_curves
from rmsrepro.report.run_dirs import arm_variant, is_variant, read_run_dirs
from rmsrepro.report.same_data import by_data
from rmsrepro.report.sessions import choose_sessions
from rmsrepro.sweep.plan import Plan, load_plan, plan_names


@dataclass
class Index:
    """Records by what they fill. A seed of an arm counts once, whoever recorded it."""

    runs: list[RunRecord] = field(default_factory=list)
    timings: list[TimingRecord] = field(default_factory=list)
    """Of each plan, size, impl and machine those of one session."""
    measurements: list[MeasurementRecord] = field(default_factory=list)
    curves: dict[tuple[str, str, str, int], list[CurveRecord]] = field(default_factory=dict)
    """Committed curves by the run they are of."""
    contradictions: list[str] = field(default_factory=list)
    """Records that cannot both be true, and committed lines that cannot be read."""
    notes: list[str] = field(default_factory=list)
    """Runs that were left out, and why."""
    earlier: set[tuple[str, str, str]] = field(default_factory=set)
    """Plan, arm and size of the runs whose configuration is not the one that the arm has today."""
    contradicted: set[Hashable] = field(default_factory=set)
    """What records contradict one another on: runs by where they are from, turns of a session, measured cells."""
    _local: dict[tuple[str, str], list[CurveRecord]] = field(default_factory=dict)
    """Curves of the run directories that were read already, by plan and directory."""
    _by_arm: dict[tuple[str, str, str], list[RunRecord]] = field(default_factory=dict)
    """The runs by plan, arm and size, from when there were `_grouped` of them."""
    _grouped: int = 0
    over_arms: dict[Hashable, float | None] = field(default_factory=dict)
    """Numbers that are of all arms together and were taken already, as every run of a seed asks for the same."""

    def arm_runs(self, plan: Plan, arm: str, size: str) -> list[RunRecord]:
        """Return one arm's runs of one configuration, by seed."""
        if self._grouped != len(self.runs):
            self._by_arm, self._grouped = {}, len(self.runs)
            for run in self.runs:
                self._by_arm.setdefault((run.plan, run.arm, run.size), []).append(run)
        return list(self._by_arm.get((plan.runs_plan, arm, size), ()))

    def is_earlier(self, plan: Plan, arm: str, size: str) -> bool:
        """Tell whether one arm's runs are of an earlier recipe than the arm's command has now."""
        return (plan.runs_plan, arm, size) in self.earlier

    def is_earlier_timing(self, timing: TimingRecord) -> bool:
        """Tell whether an arm was timed with an earlier recipe than it has now."""
        if timing.variant is None or not is_variant(timing.variant):
            return False  # nobody can tell
        return timing.variant != arm_variant(timing.plan, timing.arm, timing.size)

    def is_contradicted(self, plan: Plan, arm: str, size: str) -> bool:
        """Tell whether records of one arm's runs contradict one another."""
        return any(run.where in self.contradicted for run in self.arm_runs(plan, arm, size))

    def plan_timings(self, plan: Plan, size: str) -> list[TimingRecord]:
        """Return the timed arms of one plan."""
        return [timing for timing in self.timings if (timing.plan, timing.size) == (plan.runs_plan, size)]

    def run_curves(self, run: RunRecord) -> list[CurveRecord]:
        """Return the curves of one run: its directory's where that is at hand, else the committed ones, else none."""
        key = run.plan, run.where
        if key not in self._local:
            try:
                self._local[key] = read_curves(run)
            except DataError as error:
                self.notes.append(printable(f"{run.plan}/{run.arm}: {error}"))
                self._local[key] = []
        return self._local[key] or self.curves.get((run.plan, run.arm, run.variant, run.seed), [])

    def notes_of(self, plan: Plan) -> list[str]:
        """Return what was left out of one plan's runs."""
        return [note for note in self.notes if note.startswith(f"{plan.runs_plan}/")]

    def sizes(self, plan: Plan) -> set[str]:
        """Return the sizes at which there is anything of this plan."""
        records = (*self.runs, *self.timings)
        return {record.size for record in records if record.plan == plan.runs_plan}


def build_index(published: Path, runs_root: Path | None) -> Index:
    """Read the committed records and the run directories below `runs_root`; works with none of either."""
    index = Index()
    runs: list[RunRecord] = []
    for path in sorted(published.glob("*.jsonl")):
        records, complaints = read_records(path)
        index.contradictions += complaints
        for record in records:
            if isinstance(record, RunRecord):
                runs.append(record)
            elif isinstance(record, TimingRecord):
                _add_timing(index, record)
            elif isinstance(record, CurveRecord):
                _add_curve(index, record)
            else:
                _add_measurement(index, record)
    if runs_root is not None and runs_root.is_dir():
        local, complaints = read_run_dirs(runs_root)
        runs += local
        index.notes += complaints
    _add_runs(index, runs)
    _note_strays(index)
    index.timings, left_out = choose_sessions(index.timings)
    index.notes += left_out
    return index


def _note_strays(index: Index) -> None:
    """Note records that no table has a place for, as after an arm was given another name."""
    plans = plan_names()
    for plan, arm in sorted({(record.plan, record.arm) for record in (*index.runs, *index.timings)}):
        missing = "plan" if plan not in plans else "arm" if arm not in load_plan(plan).arms else None
        if missing is not None:
            index.notes.append(f"{plan}/{arm}: there is no such {missing}, so its records are shown nowhere")
    for found in index.measurements:
        table = load_plan(found.plan).table if found.plan in plans else None
        if table is None or (found.arm, found.column) not in load_table(table).claims:
            index.notes.append(f"{found.plan}/{found.arm}: no table has a place for {found.column} ({found.where})")


def _add_curve(index: Index, curve: CurveRecord) -> None:
    known = index.curves.setdefault(curve.run, [])
    if any(other.metric == curve.metric for other in known):
        index.contradictions.append(f"{curve.where}: a second curve of {curve.metric} of the same run; remove one")
    else:
        known.append(curve)


def _add_timing(index: Index, timing: TimingRecord) -> None:
    """Keep the first record of an arm's turn in a session; another with other times contradicts it."""
    known = next((other for other in index.timings if other.turn == timing.turn), None)
    if known is None:
        index.timings.append(timing)
    elif known.block_ms != timing.block_ms:
        index.contradictions.append(
            f"{timing.plan}/{timing.arm}, size {timing.size}: {known.where} and {timing.where} give different times for"
            f" the same turn of session {timing.session}; remove one"
        )
        index.contradicted.add(timing.turn)


def _add_measurement(index: Index, found: MeasurementRecord) -> None:
    known = next((other for other in index.measurements if other.cell == found.cell), None)
    if known is None:
        index.measurements.append(found)
    elif known.value != found.value:
        index.contradictions.append(
            f"{found.plan}/{found.arm}: {known.where} and {found.where} give {found.column} two values; remove one"
        )
        index.contradicted.add(found.cell)


def _add_runs(index: Index, runs: Iterable[RunRecord]) -> None:
    by_arm: dict[tuple[str, str, str], list[RunRecord]] = defaultdict(list)
    for run in runs:
        by_arm[run.plan, run.arm, run.size].append(run)
    for (plan, arm, size), group in by_arm.items():
        by_variant: dict[str, list[RunRecord]] = defaultdict(list)
        for run in group:
            by_variant[run.variant].append(run)
        sets = [_by_seed(index, alike) for runs in by_variant.values() for alike in by_data(runs)]
        # Composing takes a while, and a name of another form cannot be today's.
        now = arm_variant(plan, arm, size) if any(map(is_variant, by_variant)) else None
        chosen = max(sets, key=lambda runs: (_is_found(runs, now), _done(runs), max(run.started for run in runs)))
        index.runs += sorted(chosen, key=lambda run: run.seed)
        if now is not None and is_variant(chosen[0].variant) and chosen[0].variant != now:
            index.earlier.add((plan, arm, size))
            index.notes.append(
                f"{plan}/{arm}, size {size}: recorded with an earlier recipe ({chosen[0].variant}, now {now});"
                " its command makes runs of today's"
            )
        for other in sets:
            if other is not chosen:
                same = other[0].variant == chosen[0].variant
                what = "on other data" if same else f"of another configuration ({other[0].variant})"
                index.notes.append(
                    f"{plan}/{arm}, size {size}: {len(other)} runs {what} are left out, {_done(other)} of them done;"
                    f" {len(chosen)} of {chosen[0].variant} are shown"
                )


def _is_found(runs: list[RunRecord], now: str | None) -> bool:
    """Tell whether these are of today's recipe, and not just begun: one that diverged is a finding too."""
    return runs[0].variant == now and any(run.state in ("done", "diverged", "oom") for run in runs)


def _done(runs: list[RunRecord]) -> int:
    return sum(run.state == "done" for run in runs)


def _by_seed(index: Index, runs: list[RunRecord]) -> list[RunRecord]:
    copies: dict[int, list[RunRecord]] = defaultdict(list)
    for run in runs:
        copies[run.seed].append(run)
    found = [_one(index, of_seed) for of_seed in copies.values()]
    twice = [run.seed for run in found if any(_is_of_elsewhere(other, run) for other in copies[run.seed])]
    if twice:
        seeds = f"seed{'s' * (len(twice) > 1)} {', '.join(map(str, sorted(twice)))}"
        index.notes.append(
            f"{found[0].plan}/{found[0].arm}, size {found[0].size}, {seeds}: runs of another commit, machine or"
            " number of threads are left out, as there are newer ones"
        )
    return found


def _is_of_elsewhere(run: RunRecord, shown: RunRecord) -> bool:
    return run.state == shown.state == "done" and _origin(run) != _origin(shown)


def _one(index: Index, copies: list[RunRecord]) -> RunRecord:
    """Choose among the records of one configuration and seed, and note those that contradict it or broke."""
    best = best_of(copies)
    for other in copies:
        if other.state in ("diverged", "oom") and best.state == "done":
            index.notes.append(
                f"{best.plan}/{best.arm}, size {best.size}, seed {best.seed}: {other.where} ended as {other.state};"
                f" {best.where}, which is done, is shown"
            )
        if best.result and other.result and _origin(best) == _origin(other) and _metrics(best) != _metrics(other):
            index.contradictions.append(
                f"{best.plan}/{best.arm}, size {best.size}, seed {best.seed}: {other.where} and {best.where} give"
                " different metrics for the same run; publish the plan's runs again, or remove one"
            )
            index.contradicted.add(best.where)
    return best


def _origin(run: RunRecord) -> tuple[object, ...]:
    """Name all that a run's metrics depend on; the hash covers device and threads, which may differ in their sums."""
    return run.commit, run.hardware, run.result and run.result["config_hash"]


def _metrics(run: RunRecord) -> dict[str, str]:
    # As text, because NaN is a value here and equal to itself.
    return {} if run.result is None else {name: str(value) for name, value in run.result["metrics"].items()}
