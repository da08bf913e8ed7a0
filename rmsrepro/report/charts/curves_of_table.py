"""Line charts of a table's runs: what moved, by step and by time, a line per arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rmsrepro.report.charts.figure_panels import FIGURES, Panel
from rmsrepro.report.charts.lines import Line, LineChart, Mark
from rmsrepro.report.charts.names import metric_words, norm_of
from rmsrepro.report.charts.scale import number
from rmsrepro.report.curves import CurveRecord
from rmsrepro.report.layout import LayoutRow
from rmsrepro.report.mean_curves import ArmCurves, By, MeanCurve, arm_curves, axis_of, mean_curve
from rmsrepro.report.runs_index import Index
from rmsrepro.report.statistics import LARGEST
from rmsrepro.report.tables import Table

#: Values that span so many times their smallest are drawn on a logarithmic axis.
_LOG_FROM = 20.0
#: Single runs of one arm that are drawn; of hundreds no eye could tell one from another.
_MOST_SINGLE = 5


def curve_charts(table: Table, index: Index) -> list[LineChart]:
    """Return a figure's panels, or of any other plan with runs of its own its loss and its metric."""
    plan, rows = table.layout.plan, [row for row in table.layout.rows if row.planned]
    arms = {row.arm: arm_curves(index, index.arm_runs(plan, row.arm, table.size)) for row in rows}
    panels = FIGURES.get(plan.name)
    if panels is None:
        panels = () if plan.runs_of else _own_panels(table, index, arms.values())
    frameworks = list(dict.fromkeys(row.framework for row in rows)) or [None]
    charts = []
    for panel in panels:
        for framework in frameworks:
            chosen = [row for row in rows if row.framework == framework]
            chart = _chart(table, panel, chosen, arms, framework if len(frameworks) > 1 else None)
            chart.id = f"{plan.name}-{table.size}-{len(charts)}"
            charts.append(chart)
    return charts


def _own_panels(table: Table, index: Index, arms: Iterable[ArmCurves]) -> tuple[Panel, ...]:
    """Choose the training loss and the validation metric that stands for what the runs report first."""
    arms = list(arms)
    known = {metric for arm in arms for metric in (*arm.whole, *arm.apart)}
    runs = [run for arm in table.layout.plan.arms for run in index.arm_runs(table.layout.plan, arm, table.size)]
    wanted = [str(run.result["primary"]) for run in runs if run.result]
    wanted += [column.metric for column in table.layout.columns.values()]
    ends = [f"valid/{metric.rpartition('/')[2]}" for metric in wanted]
    valid = [metric for metric in [*ends, *sorted(known)] if metric in known and metric.startswith("valid/")]
    chosen = [*(["train/loss"] if "train/loss" in known else []), *valid[:1]]
    return tuple(Panel((metric,), by) for metric in chosen for by in ("step", "time"))


def _chart(
    table: Table, panel: Panel, rows: Sequence[LayoutRow], arms: dict[str, ArmCurves], framework: str | None
) -> LineChart:
    plan, size = table.layout.plan, table.size
    known = {metric for row in rows for metric in (*arms[row.arm].whole, *arms[row.arm].apart)}
    metric = next((name for name in panel.metrics if name in known), panel.metrics[0])
    title = f"{metric_words(metric)} by {panel.by}" + (f", {framework}" if framework else "")
    chart = LineChart(title, panel.by, why_empty="not measured")
    chart.log = _is_wide([curve for row in rows for curve in arms[row.arm].whole.get(metric, [])])
    dashes: Counter[str] = Counter()
    left_out = 0
    for row in rows:
        norm = norm_of(plan, row.arm, size)
        whole = _cut(arms[row.arm].whole.get(metric, []), panel.until)
        apart = arms[row.arm].apart.get(metric, [])
        if whole or apart:
            mean = mean_curve(whole, panel.by, log=chart.log)
            chart.lines += _lines(row, norm, panel.by, mean, apart, dashes[norm])
            dashes[norm] += 1
            left_out += max(0, len(apart) - _MOST_SINGLE)
    if panel.marks and metric == panel.metrics[0] and (size == "paper" or not chart.lines):
        for claim in table.layout.claims.values():
            if claim.column in panel.marks and claim.origin is None:
                chart.marks.append(Mark(claim.label, claim.norm, panel.marks[claim.column], claim.value))
    notes = ["hollow: the paper's"] if chart.marks else []
    notes += ["ours not measured"] if chart.marks and not chart.lines else []
    notes += [f"single runs: and {left_out} more"] if left_out else []
    chart.note = "; ".join(notes)
    return chart


def _lines(
    row: LayoutRow,
    norm: str,
    by: By,
    found: MeanCurve | None,
    apart: Sequence[tuple[CurveRecord, str]],
    dash: int,
) -> list[Line]:
    lines = []
    if found is not None:
        label = row.label if found.n > 1 and found.low is not None else f"{row.label}, n={found.n}"
        lines.append(Line(label, norm, found.x, found.mean, found.low, found.high, _said(row.label, found), dash))
    for curve, why in apart[:_MOST_SINGLE]:
        said = f"{row.label}, seed {curve.seed}: {why} at step {curve.steps[-1]}"
        label = "" if found is not None or curve is not apart[0][0] else f"{row.label}, {why}"
        broken = Line(label, norm, axis_of(curve, by), curve.values, said=said, dash=dash, broken=True)
        lines.append(broken)
    return lines


def _cut(curves: Sequence[CurveRecord], until: int | None) -> Sequence[CurveRecord]:
    """Keep of each curve what lies up to a step."""
    if until is None:
        return curves
    kept = [(curve, sum(step <= until for step in curve.steps)) for curve in curves]
    return [curve.first(count) for curve, count in kept if count]


def _is_wide(curves: Sequence[CurveRecord]) -> bool:
    """Say whether values are all positive and span so much that only a logarithmic axis shows them."""
    values = [value for curve in curves for value in curve.values]
    return bool(values) and min(values) > 1 / LARGEST and max(values) / min(values) > _LOG_FROM


def _said(label: str, found: MeanCurve) -> str:
    last = number(float(found.mean[-1]))
    if found.low is None or found.high is None:
        return f"{label}: ends at {last}, n={found.n}, no band"
    interval = f"[{number(float(found.low[-1]))}, {number(float(found.high[-1]))}]"
    return f"{label}: ends at {last} {interval}, n={found.n}"
