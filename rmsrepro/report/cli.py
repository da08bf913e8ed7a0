"""The command `python -m rmsrepro.report`.

Exit 0: done, however little there was. 1: with --check, records that contradict one another. 2: something to mend, said
in one line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmsrepro.arguments import Parser, with_dashes
from rmsrepro.config import SIZES
from rmsrepro.errors import ConfigError, UserError, fail
from rmsrepro.report import bleu, csv_table, latex, markdown
from rmsrepro.report.claims import load_table, table_names
from rmsrepro.report.elsewhere import load_published, load_unsourced
from rmsrepro.report.fields import printable
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

_COMMANDS = """\
  [plan=NAME,...] [size=SIZE] [--out DIR]          write tables as Markdown, LaTeX and CSV (results/tables)
  --check                                          exit 1 if records contradict one another
  --html [FILE]                                    write the report as one page (results/report.html)
  figures [plan=NAME,...] [--out DIR]              write the figures as SVG (results/figures)
  --readme FILE                                    put the overview between the marks of a README
  publish plan=NAME,...                            add a plan's finished runs to results/published
  bleu RUN_DIR RUN_DIR ... [--set NAME]            test the runs' translations against the first run's"""

#: Options that may be written without dashes, as on the command lines of runs and sweeps.
_KEYS = ("plan", "size", "runs.root")
_RENDERERS = {"md": markdown.render, "tex": latex.render, "csv": csv_table.render}


@dataclass
class Options:
    """What the command line says."""

    words: list[str]
    """publish or figures, where one of them was given."""
    html: Path | None
    readme: Path | None
    check: bool
    plans: list[str]
    size: str | None
    runs_root: str | None
    out: Path | None
    published: Path

    @property
    def commands(self) -> list[str]:
        """Return what is asked for other than tables."""
        flags = {"--check": self.check, "--html": self.html is not None, "--readme": self.readme is not None}
        return [*self.words, *(flag for flag, given in flags.items() if given)]


def main(argv: Sequence[str]) -> int:
    """Run `argv` and return the exit code."""
    try:
        if argv and argv[0] == "bleu":
            return bleu.main(argv[1:])
        options = parse(argv)
        if "publish" in options.words:
            return _publish(options)
        runs = runs_root(options.runs_root)
        for name, folder in (("runs.root", runs), ("--published", options.published)):
            if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                raise ConfigError(f"{name}={folder}: cannot be read (Permission denied); name another folder")
        index = build_index(options.published, runs)
        if options.runs_root and not runs.is_dir():
            index.notes.append(printable(f"runs.root={runs}: no such folder, so there are committed records only"))
        if not options.published.is_dir():
            note = f"--published={options.published}: no such folder, so there are no committed records"
            index.notes.append(printable(note))
        tables = {name: build_tables(load_plan(name), index, options.size) for name in options.plans or plan_names()}
        if options.check:
            return _check(tables, index)
        if options.html is not None:
            return _write_page(tables, index, options.html)
        if options.readme is not None:
            write_overview(options.readme, [table for sized in tables.values() for table in sized])
            return 0
        return (_write_figures if "figures" in options.words else _write)(tables, index, options)
    except UserError as error:
        return fail(error)
    except BrokenPipeError:  # the reader has gone, as `plan=table4 | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def parse(argv: Sequence[str]) -> Options:
    """Read the command line, `key=value` or `--key value` alike; raises ConfigError that says what is allowed."""
    options = Options(**vars(_parser().parse_intermixed_args(with_dashes(argv, _KEYS))))
    if len(options.commands) > 1:
        raise ConfigError(f"{' and '.join(options.commands)}: each is a command of its own; give one of them")
    if options.out is not None and options.html is not None:
        raise ConfigError("--out: says where tables or figures go; name the page's file as --html FILE")
    if options.size is not None and "publish" in options.words:
        raise ConfigError("--size: means nothing with publish, which adds the plan's runs of every size")
    if options.html is not None and options.html.is_dir():
        raise ConfigError(f"--html={options.html}: is a folder; name a file in it")
    return options


def _parser() -> Parser:
    parser = Parser(
        prog="python -m rmsrepro.report",
        usage="%(prog)s [figures|publish|bleu] [plan=NAME,...] [option ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Write what runs and committed records say; nothing is trained.\n\n{_COMMANDS}",
        epilog="plan=, size= and runs.root= may be written without dashes.",
    )
    parser.add_argument("words", nargs="*", type=_word, metavar="figures|publish")
    parser.add_argument(
        "--plan", dest="plans", type=lambda names: names.split(","), action="extend", default=[], metavar="NAME,..."
    )
    parser.add_argument("--size", type=_size, metavar="SIZE", help=", ".join(SIZES))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--html", nargs="?", type=_path, const=results_dir() / "report.html", metavar="FILE")
    parser.add_argument("--readme", type=_path, metavar="FILE")
    parser.add_argument("--out", type=_path, metavar="DIR", help="where tables or figures go")
    parser.add_argument("--runs.root", dest="runs_root", metavar="DIR", help="else $RMSREPRO_RUNS, else results/runs")
    parser.add_argument(
        "--published", type=_path, default=published_dir(), metavar="DIR", help="committed records (results/published)"
    )
    return parser


def _word(text: str) -> str:
    if text not in ("figures", "publish"):
        raise argparse.ArgumentTypeError(f"{text}: not understood")
    return text


def _size(text: str) -> str:
    if text not in SIZES:
        raise argparse.ArgumentTypeError(f"{text}: allowed are {', '.join(SIZES)}")
    return text


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a file or folder")
    return Path(text)


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
    _say(tables, index)
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
