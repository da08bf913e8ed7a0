"""The plot of Figure 3: quality by the share p of the inputs that the root mean square is taken over."""

from __future__ import annotations

from rmsrepro.report.charts.lines import Line, LineChart
from rmsrepro.report.charts.names import metric_words
from rmsrepro.report.runs_index import Index
from rmsrepro.report.statistics import estimate
from rmsrepro.report.tables import Table

_METRIC = "valid/bleu"
_SHARE = "norm.p="


def share_chart(table: Table, index: Index) -> LineChart:
    """Return means with intervals over p, the paper's lowest and highest as dashed lines."""
    plan = table.layout.plan
    found = []
    for arm in plan.arms:
        shares = [part for part in plan.overrides(arm, table.size) if part.startswith(_SHARE)]
        results = [run.result["metrics"] for run in index.arm_runs(plan, arm, table.size) if run.result]
        mean = estimate([float(metrics[_METRIC]) for metrics in results if _METRIC in metrics])
        if shares and mean.mean is not None:
            found.append((100 * float(shares[0].removeprefix(_SHARE)), mean))
    chart = LineChart(
        f"{metric_words(_METRIC)} by the share p", "step", x_label="p in %", id=f"{plan.name}-{table.size}-p"
    )
    if found:
        x, means = zip(*found, strict=True)
        low = [mean.interval.low if mean.interval else mean.mean for mean in means]
        high = [mean.interval.high if mean.interval else mean.mean for mean in means]
        n = sorted({mean.n for mean in means})
        label = "pRMSNorm" if n[0] >= 3 else f"pRMSNorm, n={n[0]}"
        y = [mean.mean for mean in means]
        chart.lines.append(Line(label, "prmsnorm", x, y, low, high, f"pRMSNorm, n={n[0]} to {n[-1]} a share"))
    if table.size == "paper" or not found:
        claims = table.layout.claims.values()
        chart.limits = [(f"paper, {claim.heading.lower()}: {claim.printed}", claim.value) for claim in claims]
        chart.note = "" if found else "ours not measured"
    return chart
