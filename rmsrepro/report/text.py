"""Cells as the words and numbers that every format shows alike; how to escape them is the format's own affair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rmsrepro.report.cells import Cell
from rmsrepro.report.statistics import Interval
from rmsrepro.report.tables import Table
from rmsrepro.report.units import fixed, telling_digits
from rmsrepro.report.verdict import Verdict

NONE = "–"
NOT_AVAILABLE = "n/a"
LEGEND = (
    "Ours: mean over seeds (for times over blocks of one session) ± sample standard deviation (divisor n - 1)"
    " [95 % interval of the mean by Student's t], n runs. A sentence or an image of a test set is no run.",
    f"{NONE}: no number; the column State says why. {NOT_AVAILABLE}: cannot be had from so few or such runs."
    " ≈: read from a plot.",
    "Verdicts: the rules are in docs/statistics.md. Times are never compared across machines or impls, only their"
    " ratios to the reference arm.",
    "Each cell has its own verdict, at a level that is not adjusted for how many there are. LayerNorm and the arm"
    " without a norm are each other's reference, so their comparison counts twice, and columns of quality share runs.",
    "A command repeats its rows' configuration and seeds. Where it names no impl, the machine it runs on decides, and"
    " may take another than the one shown here.",
)
_LAST_HEADINGS = ("Verdict", "State", "Data", "Impl", "Hardware")
_BETTER = {"max": "higher is better", "min": "lower is better", "neutral": "neither way is better"}


@dataclass(frozen=True)
class Text:
    """One field of a rendered row."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Block:
    """One column of the paper's table as rows of fields under headings."""

    title: str
    headings: list[str]
    rows: list[list[Text]]


def blocks(table: Table) -> Iterator[Block]:
    """Yield a block per column of the paper's table, a row per arm (and per impl and machine for times)."""
    frameworks = {cell.framework for cell in table.cells}
    for _, group in groupby(table.cells, key=lambda cell: cell.column):
        cells = list(group)
        first = cells[0]
        what = "ratio" if first.is_ratio else "difference"
        yield Block(
            f"{first.heading} ({first.unit}; {_BETTER[first.direction]})",
            ["Arm", "Paper", "Ours", "n", "Reference", f"Paper's {what}", f"Our {what}", *_LAST_HEADINGS],
            [_row(table, cell, len(frameworks) > 1) for cell in cells],
        )


def ours(cell: Cell) -> str:
    """Return our number with spread and interval; those are n/a where there are too few runs."""
    found = cell.ours
    if found is None or found.mean is None:
        return NONE
    if cell.unit == "yes/no":
        return cell.shown(found.mean)  # it holds or not, without chance
    if found.sd is None or found.interval is None:
        spread = f"{NOT_AVAILABLE} [{NOT_AVAILABLE}]"
    else:
        sd = cell.shown(found.sd) if cell.is_ratio else fixed(found.sd, telling_digits([found.sd], cell.digits + 1))
        spread = f"{sd} [{cell.shown(found.interval.low)}, {cell.shown(found.interval.high)}]"
    return f"{cell.shown(found.mean)} ± {spread}" + (" a step" if cell.is_ratio else "")


def relative(cell: Cell) -> str:
    """Return our difference or ratio to the reference arm, with its interval."""
    if cell.relative is None:
        return NONE
    return f"{fixed(cell.relative, _digits(cell, cell.relative))} [{_ends(cell, cell.relative_interval)}]"


def paper_relative(cell: Cell) -> str:
    """Return the paper's difference or ratio to the reference arm."""
    return NONE if cell.paper_relative is None else fixed(cell.paper_relative, _digits(cell))


def row_words(cell: Cell, *, with_framework: bool) -> str:
    """Name a cell's row, with the framework where there are several, and with whom the paper quotes."""
    if cell.claim is not None and cell.claim.origin is not None:
        return f"{cell.label} ({cell.claim.origin})"
    return f"{cell.label}, {cell.framework}" if with_framework and cell.framework else cell.label


def data_words(cell: Cell) -> str:
    """Name the data of a cell's runs, and the metric where another than the paper's stands in for it."""
    return f"{cell.data}: {cell.stand_in}" if cell.stand_in else cell.data


def reasons(table: Table) -> list[str]:
    """Say what each verdict rests on and what each state leaves open."""
    lines = []
    for cell in table.cells:
        name = f"{cell.label}{f' in {cell.framework}' if cell.framework else ''}, {cell.heading}"
        name += f", impl={cell.impl}" if cell.is_ratio and cell.impl else ""
        if cell.state == "measured" and cell.verdict is not None:
            found = cell.verdict
            lines.append(f"{name}: {found.outcome}; {verdict_words(cell, found)}: {found.reason}.")
        if cell.detail:
            lines.append(f"{name}: {cell.state}; {cell.detail}.")
    return lines


def commands(table: Table) -> dict[str, list[str]]:
    """Return the commands that make the table's numbers again, each once, with the labels of the rows it is for."""
    found: dict[str, list[str]] = {}
    for cell in table.cells:
        if cell.command and cell.label not in found.setdefault(cell.command, []):
            found[cell.command].append(cell.label)
    return found


def verdict_words(cell: Cell, verdict: Verdict) -> str:
    """Say by which rule, from how many runs or blocks and on which interval a verdict was given."""
    found = verdict.interval
    interval = f", {found.level:.0%} interval [{_ends(cell, found)}]" if found else ""
    return f"{verdict.rule}, n={verdict.n}{interval}"


def _row(table: Table, cell: Cell, with_framework: bool) -> list[Text]:
    verdict = NONE
    if cell.claim is not None and cell.claim.origin is None:
        verdict = cell.verdict.outcome if cell.verdict else "not tested"
    return [
        Text(row_words(cell, with_framework=with_framework)),
        Text(cell.claim.printed if cell.claim else NONE, cell.best_paper),
        Text(ours(cell), cell.best_ours),
        Text(str(cell.ours.n) if cell.ours else "0"),
        Text(table.layout.label(cell.reference) if cell.reference else NONE),
        Text(paper_relative(cell)),
        Text(relative(cell)),
        Text(verdict),
        Text(cell.state),
        Text(data_words(cell) or NONE),
        Text(cell.impl or NONE),
        Text(cell.hardware or NONE),
    ]


def _digits(cell: Cell, *values: float) -> int:
    """Return the digits of a ratio or difference, enough to tell `values` from no difference at all."""
    return telling_digits(values, 3, 1.0) if cell.is_ratio else telling_digits(values, cell.digits)


def _ends(cell: Cell, interval: Interval | None) -> str:
    if interval is None:
        return NOT_AVAILABLE
    digits = _digits(cell, interval.low, interval.high)
    return f"{fixed(interval.low, digits)}, {fixed(interval.high, digits)}"
