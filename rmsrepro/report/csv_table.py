"""Tables as CSV: one line per cell, numbers in full precision, the unit in a column of its own."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from rmsrepro.report.cells import Cell
from rmsrepro.report.claims import Claim, ClaimTable
from rmsrepro.report.statistics import Interval
from rmsrepro.report.tables import Table

COLUMNS = (
    *("claim", "table", "size", "arm", "label", "framework", "column", "unit", "direction"),
    *("paper", "paper_spread", "paper_relative", "ours", "ours_unit", "ours_sd", "ours_low", "ours_high", "n", "seeds"),
    *("reference", "relative_is", "relative", "relative_low", "relative_high"),
    *("verdict", "verdict_rule", "verdict_reason", "verdict_n", "verdict_low", "verdict_high", "verdict_level"),
    *("state", "detail", "data", "metric", "signature", "impl", "hardware", "commits", "command", "runs"),
)
_LINE_END = re.compile(r"\r\n|\r|\n")


def render(tables: Sequence[Table]) -> str:
    """Render one plan's cells; what is missing is an empty field, and `state` says why."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows(map(_on_one_line, map(_row, table.cells)))
    return text.getvalue()


def render_claims(tables: Iterable[ClaimTable]) -> str:
    """Render every number that the paper states, one line each."""
    fields = [*(name for name in Claim.__dataclass_fields__)]
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        for claim in table.all():
            row = {name: getattr(claim, name) for name in fields}
            writer.writerow(_on_one_line({**row, "unit": claim.unit.name}))
    return text.getvalue()


def _on_one_line(row: dict[str, object]) -> dict[str, object]:
    """Write line ends within a text as spaces: before Python 3.13 a carriage return alone is written without quotes."""
    return {key: _LINE_END.sub(" ", part) if isinstance(part, str) else part for key, part in row.items()}


def _row(cell: Cell) -> dict[str, object]:
    claim, found, verdict = cell.claim, cell.ours, cell.verdict
    low, high = _ends(found.interval if found else None)
    relative_low, relative_high = _ends(cell.relative_interval)
    verdict_low, verdict_high = _ends(verdict.interval if verdict else None)
    return {
        "claim": claim.id if claim else None,
        "table": cell.table,
        "size": cell.size,
        "arm": cell.arm,
        "label": cell.label,
        "framework": cell.framework,
        "column": cell.column,
        "unit": cell.unit,
        "direction": cell.direction,
        "paper": claim.value if claim else None,
        "paper_spread": claim.spread if claim else None,
        "paper_relative": _number(cell.paper_relative),
        "ours": _number(found.mean if found else None),
        "ours_unit": cell.ours_unit,
        "ours_sd": _number(found.sd if found else None),
        "ours_low": low,
        "ours_high": high,
        "n": found.n if found else 0,
        "seeds": " ".join(map(str, cell.seeds)),
        "reference": cell.reference,
        "relative_is": "ratio" if cell.is_ratio else "difference",
        "relative": _number(cell.relative),
        "relative_low": relative_low,
        "relative_high": relative_high,
        "verdict": verdict.outcome if verdict else None,
        "verdict_rule": verdict.rule if verdict else None,
        "verdict_reason": verdict.reason if verdict else None,
        "verdict_n": verdict.n if verdict else None,
        "verdict_low": verdict_low,
        "verdict_high": verdict_high,
        "verdict_level": _number(verdict.interval.level) if verdict and verdict.interval else None,
        "state": cell.state,
        "detail": cell.detail,
        "data": cell.data,
        "metric": cell.metric,
        "signature": cell.signature,
        "impl": cell.impl,
        "hardware": cell.hardware,
        "commits": " ".join(cell.commits),
        "command": cell.command,
        "runs": " ".join(cell.runs),
    }


def _number(value: float | None) -> float | None:
    """Return a negative zero as zero, and rounding noise beyond ten digits as nothing."""
    return None if value is None else float(f"{value:.10g}") + 0.0


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (_number(interval.low), _number(interval.high))
