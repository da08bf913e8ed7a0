"""The overview in a README: one line per table, kept between two marks and made from records like all else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rmsrepro.errors import ConfigError
from rmsrepro.report.markdown import grid
from rmsrepro.report.overview import OUTCOMES, Tally, tally
from rmsrepro.report.tables import Table
from rmsrepro.report.text import NONE, Text
from rmsrepro.runs.atomic import write_bytes_atomic
from rmsrepro.sweep.plan import load_plan

BEGIN, END = "<!-- overview: written by `make readme` -->", "<!-- overview ends -->"


def summary(tables: Sequence[Table]) -> str:
    """Render one line per table or figure of the paper: how its claims stand, by size."""
    rows = []
    for plan, lines in groupby(tally(tables), key=lambda line: line.plan):
        own = list(lines)
        fields = (plan, own[0].title, _state(own, time=False), _state(own, time=True))
        rows.append([Text(field) for field in fields])
    return "\n".join(grid(["Table", "What", "Quality", "Time"], rows))


def write_overview(path: Path, tables: Sequence[Table]) -> None:
    """Put the summary between the marks of `path`; raises ConfigError where it has none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--readme={path}: cannot be read ({_reason(error)})") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ConfigError(f"--readme={path}: expected the lines `{BEGIN}` and `{END}`, between which the overview goes")
    try:
        write_bytes_atomic(path, f"{before}{begin}\n\n{summary(tables)}\n\n{end}{after}".encode())
    except OSError as error:
        raise ConfigError(f"--readme={path}: cannot be written ({_reason(error)})") from error


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else "it is not UTF-8") or type(error).__name__


def _state(lines: Sequence[Tally], *, time: bool) -> str:
    said, lines = [], [line for line in lines if line.what.startswith("time") == time]
    untried = load_plan(lines[0].plan).untried_at("paper") if lines and not time else None
    # Failures and runs under way are news; of runs that nobody has tried the reason is enough.
    news = any(line.outcomes or set(line.unmeasured) & {"failed", "running", "contradictory"} for line in lines)
    if untried is not None and not news:
        return f"paper: {lines[0].claims or ''} {untried.state}".replace("  ", " ")
    for line in lines:
        counts = [f"{line.outcomes[name]} {name}" for name in OUTCOMES if line.outcomes[name]]
        counts += [f"{count} {state}" if line.claims else state for state, count in line.unmeasured.items()]
        impl = line.what.removeprefix("time, impl=") if time and "=" in line.what else ""
        said.append(f"{line.size}{impl and f', {impl}'}: {', '.join(counts)}")
    return "; ".join(said) or NONE
