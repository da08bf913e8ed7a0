"""The command `python -m rmsrepro.report`.

Exit 0: done, however little there was. 1: with --check, records that contradict one another. 2: something to mend, said
in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError, UserError
from rmsrepro.report import csv_table, latex, markdown
from rmsrepro.report.claims import load_table, table_names
from rmsrepro.report.elsewhere import load_published, load_unsourced
from rmsrepro.report.figures import write_figures
from rmsrepro.report.html.page import render_page
from rmsrepro.report.overview import OUTCOMES, render_elsewhere, render_overview, tally
from rmsrepro.report.places import published_dir, results_dir
from rmsrepro.report.publish import publish
from rmsrepro.report.readme import write_overview
from rmsrepro.report.runs_index import Index, build_index
from rmsrepro.report.tables import Table, build_tables
from rmsrepro.runs.atomic import write_bytes_atomic
from rmsrepro.runs.rundir import runs_root
from rmsrepro.sweep.plan import load_plan, plan_names

USAGE = """\
python -m rmsrepro.report [plan=NAME,...] [size=SIZE] [--out DIR]   write tables as Markdown, LaTeX and CSV
python -m rmsrepro.report --check                                   exit 1 if records contradict one another
python -m rmsrepro.report --html [FILE]                             write the report as one page (results/report.html)
python -m rmsrepro.report figures [plan=NAME,...] [--out DIR]       write the figures as SVG (results/figures)
python -m rmsrepro.report --readme FILE                             put the overview between the marks of a README
python -m rmsrepro.report publish plan=NAME,...                     add a plan's finished runs to results/published

runs.root=DIR   where run directories lie (else $RMSREPRO_RUNS, else results/runs)
--published DIR where committed records lie (else results/published)"""

_RENDERERS = {"md": markdown.render, "tex": latex.render, "csv": csv_table.render}


@dataclass
class Options:
    """What the command line says."""

    publish: bool = False
    figures: bool = False
    html: Path | None = None
    readme: Path | None = None
    check: bool = False
    plans: list[str] = field(default_factory=list)
    size: str | None = None
    runs_root: str | None = None
    out: Path | None = None
    published: Path = field(default_factory=published_dir)


def main(argv: Sequence[str]) -> int:
    """Run `argv` and return the exit code."""
    if any(flag in argv for flag in ("-h", "--help")):
        print(USAGE)
        return 0
    try:
        options = parse(argv)
        if options.publish:
            return _publish(options)
        runs = runs_root(options.runs_root)
        index = build_index(options.published, runs)
        if options.runs_root and not runs.is_dir():
            index.notes.append(f"runs.root={runs}: no such folder, so there are committed records only")
        if not options.published.is_dir():
            index.notes.append(f"--published={options.published}: no such folder, so there are no committed records")
        tables = {name: build_tables(load_plan(name), index, options.size) for name in options.plans or plan_names()}
        if options.check:
            return _check(tables, index)
        if options.html is not None:
            return _write_page(tables, index, options.html)
        if options.readme is not None:
            write_overview(options.readme, [table for sized in tables.values() for table in sized])
            return 0
        return _write_figures(tables, index, options) if options.figures else _write(tables, index, options)
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has gone, as `plan=table4 | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def parse(argv: Sequence[str]) -> Options:
    """Read the command line; raises ConfigError that says what is allowed."""
    options, rest = Options(), list(argv)
    while rest:
        argument = rest.pop(0)
        if argument in ("publish", "figures"):
            setattr(options, argument, True)
            continue
        if argument == "--check":
            options.check = True
            continue
        if argument == "--html":
            named = bool(rest) and "=" not in rest[0] and not rest[0].startswith("-")
            options.html = Path(rest.pop(0)) if named else results_dir() / "report.html"
            continue
        key, equals, value = argument.partition("=")
        if not equals and key in ("--out", "--published", "--readme") and rest:
            value = rest.pop(0)
        elif not equals:
            raise ConfigError(f"{argument}: not understood; --help shows what there is")
        if key == "plan":
            options.plans += value.split(",")
        elif key == "size":
            if value not in SIZES:
                raise ConfigError(f"size={value}: allowed are {', '.join(SIZES)}")
            options.size = value
        elif key == "runs.root":
            options.runs_root = value
        elif key == "--readme":
            options.readme = _path(key, value)
        elif key == "--out":
            options.out = _path(key, value)
        elif key == "--published":
            options.published = _path(key, value)
        else:
            raise ConfigError(f"{argument}: not understood; --help shows what there is")
    _check_one_command(options)
    return options


def _path(option: str, value: str) -> Path:
    if not value or value.startswith("-"):
        raise ConfigError(f"{option}={value}: expected the name of a file or folder")
    return Path(value)


def _check_one_command(options: Options) -> None:
    given = {
        "publish": options.publish,
        "figures": options.figures,
        "--check": options.check,
        "--html": options.html is not None,
        "--readme": options.readme is not None,
    }
    commands = [name for name, asked in given.items() if asked]
    if len(commands) > 1:
        raise ConfigError(f"{' and '.join(commands)}: each is a command of its own; give one of them")


def _publish(options: Options) -> int:
    if not options.plans:
        raise ConfigError(f"publish: name the plan, as plan=NAME; known are {', '.join(plan_names())}")
    for name in options.plans:
        try:
            path, count = publish(name, runs_root(options.runs_root), options.published)
        except OSError as error:
            raise _not_written("--published", options.published, error) from error
        print(f"{path}: {count} runs")
    return 0


def _write(tables: dict[str, list[Table]], index: Index, options: Options) -> int:
    out = options.out or results_dir() / "tables"
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, sized in tables.items():
            for suffix, render in _RENDERERS.items():
                write_bytes_atomic(out / f"{name}.{suffix}", render(sized).encode())
        if not options.plans:
            every = [table for sized in tables.values() for table in sized]
            write_bytes_atomic(out / "overview.md", render_overview(every).encode())
            claims = csv_table.render_claims(load_table(name) for name in table_names())
            write_bytes_atomic(out / "claims.csv", claims.encode())
            elsewhere = render_elsewhere([load_published(), load_unsourced()])
            write_bytes_atomic(out / "elsewhere.md", elsewhere.encode())
    except OSError as error:
        raise _not_written("--out", out, error) from error
    if options.plans:
        print("\n".join(markdown.render(sized) for sized in tables.values()), flush=True)
    _say(tables, index)
    print(f"written to {out}", file=sys.stderr)
    return 0


def _write_page(tables: dict[str, list[Table]], index: Index, page: Path) -> int:
    text = render_page(tables, index, [load_published(), load_unsourced()], page.absolute())
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(page, text.encode())
    except OSError as error:
        raise _not_written("--html", page, error) from error
    _say(tables, index)
    print(f"written to {page}", file=sys.stderr)
    return 0


def _write_figures(tables: dict[str, list[Table]], index: Index, options: Options) -> int:
    folder = options.out or results_dir() / "figures"
    try:
        written = write_figures(tables, index, folder)
    except OSError as error:
        raise _not_written("--out", folder, error) from error
    print(f"{len(written)} figures written to {folder}", file=sys.stderr)
    return 0


def _not_written(option: str, path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{option}={path}: cannot be written ({error.strerror}); name another place")


def _check(tables: dict[str, list[Table]], index: Index) -> int:
    _say(tables, index)
    return 1 if index.contradictions else 0


def _say(tables: dict[str, list[Table]], index: Index) -> None:
    lines = tally(table for sized in tables.values() for table in sized)
    counts = [f"{sum(line.outcomes[outcome] for line in lines)} {outcome}" for outcome in OUTCOMES]
    unmeasured = sum(sum(line.unmeasured.values()) for line in lines if line.claims)
    print(f"claims: {', '.join(counts)}, {unmeasured} without a number of ours", file=sys.stderr)
    for note in index.notes:
        print(f"note: {note}", file=sys.stderr)
    for contradiction in dict.fromkeys(index.contradictions):
        print(f"contradiction: {contradiction}", file=sys.stderr)
