"""Print runs beside one another: `python -m rmsrepro.report.side_by_side RUN ...`, or the paths on stdin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rmsrepro.errors import DataError, UserError, fail
from rmsrepro.runs.result import read_result

#: What runs usually share; each has a column of its own where they do not.
_SHARED = ("task", "data", "size", "device")


def comparison(results: Sequence[dict[str, Any]]) -> Table:
    """Lay out one row a run: the primary metric, time per step with its 10th to 90th percentile, parameters."""
    first = results[0]
    differing = [key for key in _SHARED if any(result[key] != first[key] for result in results)]
    primary = list(dict.fromkeys(result["primary"] for result in results))
    items = {str(result.get("items", "items")) for result in results}
    table = Table(title=", ".join(f"{key} {first[key]}" for key in _SHARED if key not in differing))
    for heading in ("norm", "impl", *differing):
        table.add_column(heading)
    rate = f"mean {items.pop() if len(items) == 1 else 'items'} / s"
    for heading in ("seed", *primary, "median ms / step (p10-p90)", rate, "parameters"):
        table.add_column(heading, justify="right")
    for result in results:
        timing = result["timing"]
        table.add_row(
            result["norm"],
            result["impl"],
            *(result[key] for key in differing),
            str(result["seed"]),
            *(_metric(result, name) for name in primary),
            _step_ms(timing),
            "not measured" if timing["items_per_s"] is None else f"{timing['items_per_s']:,.0f}",
            f"{result['params']:,}",
        )
    return table


def read_run(path: Path) -> dict[str, Any]:
    """Read the result of a run directory, or the file itself; raises DataError."""
    file = path / "result.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"{path}: there is no result.json; the run is not done, or this is no run directory")
    try:
        return read_result(file)
    except DataError as error:
        raise DataError(f"{path}: this is no result of a run ({error})") from error


def _metric(result: dict[str, Any], name: str) -> str:
    value = result["metrics"].get(name)
    return "-" if value is None else f"{float(value):.4f}"  # JSON holds "NaN" and "Infinity" as text


def _step_ms(timing: dict[str, Any]) -> str:
    median = timing["step_ms_median"]
    if median is None:
        return "not measured"
    spread = (timing.get("step_ms_p10"), timing.get("step_ms_p90"))
    return f"{median:.2f}" + (f" ({spread[0]:.2f}-{spread[1]:.2f})" if None not in spread else "")


def main(arguments: Sequence[str]) -> int:
    """Print the comparison of the named result files and where their runs lie."""
    if {"-h", "--help"} & set(arguments):
        print(f"python -m rmsrepro.report.side_by_side RUN_DIRECTORY|result.json ...\n\n{__doc__}")
        return 0
    paths = [Path(argument) for argument in arguments or sys.stdin.read().splitlines()]
    try:
        results = [read_run(path) for path in paths]
    except UserError as error:
        return fail(error)
    if not results:
        return fail("no result to show; name one or more run directories or result.json files")
    Console(width=None if sys.stdout.isatty() else 120, markup=False).print(comparison(results))
    for result, path in zip(results, paths, strict=True):
        print(f"{result['norm']:>10}  {path if path.is_dir() else path.parent}")
    print("Runs made one after another: their times show the order of size, not a speedup.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
