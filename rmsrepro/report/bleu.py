"""Compare the translations of runs by sacrebleu's paired test: `python -m rmsrepro.report bleu RUN_DIR RUN_DIR ...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsrepro.arguments import Parser
from rmsrepro.errors import ConfigError, DataError
from rmsrepro.report.fields import printable
from rmsrepro.report.metrics import facts_of
from rmsrepro.report.side_by_side import read_run
from rmsrepro.report.statistics import paired_bleu

SAMPLES = 1000


@dataclass(frozen=True)
class Translations:
    """What one run made of one test set, a line a sentence, and what that is scored against."""

    run: str
    data: str
    tokenized: bool
    hypotheses: list[str]
    references: list[str]


def main(argv: Sequence[str]) -> int:
    """Print BLEU of each run and the p value of its difference to the first; raises UserError."""
    parser = Parser(prog="python -m rmsrepro.report bleu", description=__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN_DIR", help="finished runs; the first is the baseline"
    )
    parser.add_argument("--set", dest="name", metavar="SET", help="the test set (the baseline's first)")
    parser.add_argument("--references", type=Path, metavar="FILE", help="one line a sentence, for runs that kept none")
    given = parser.parse_args(argv)
    if len(given.runs) < 2 or len({run.resolve() for run in given.runs}) < len(given.runs):
        raise ConfigError("bleu: name two runs or more, each once; the first is the baseline")
    results = [read_run(run) for run in given.runs]
    name = given.name or _first_set(given.runs[0], results[0])
    both = zip(given.runs, results, strict=True)
    print(compare(name, [read_translations(run, result, name, given.references) for run, result in both]))
    return 0


def compare(name: str, runs: Sequence[Translations], samples: int = SAMPLES) -> str:
    """Test every run against the first; raises DataError where they are not of one test set.

    By paired bootstrap, whose p value counts one side only (Koehn 2004), and by approximate randomisation, for both.
    """
    first, *others = runs
    for run in others:
        other = [what for what in ("data", "references", "tokenized") if getattr(run, what) != getattr(first, what)]
        if other:
            raise DataError(f"{run.run}: not {first.run}'s {name} ({', '.join(other)}); compare runs of one test set")
    for run in runs:
        counts = len(run.hypotheses), len(run.references)
        if counts[0] != counts[1]:
            raise DataError(f"{run.run}: {counts[0]} translations for {counts[1]} references of {name}")
    bootstrap, randomised = (
        paired_bleu(
            first.references,
            (first.run, first.hypotheses),
            [(run.run, run.hypotheses) for run in others],
            method=method,
            samples=samples,
            tokenized=first.tokenized,
        )
        for method in ("bs", "ar")
    )
    lines = [f"{name}, {len(first.references)} sentences; {bootstrap['signature']}"]
    lines.append(f"{'BLEU':>6}  {'p(bs)':>6}  {'p(ar)':>6}")
    for run, score in bootstrap["scores"].items():
        both = (score["p"], randomised["scores"][run]["p"])
        words = "  ".join(f"{'base' if p is None else f'{p:.4f}':>6}" for p in both)
        lines.append(f"{score['bleu']:6.2f}  {words}  {run}")
    lines.append(
        f"p: paired bootstrap (bs, one-sided) and approximate randomisation (ar, two-sided), {samples} draws over the"
        " sentences, not adjusted for several runs; neither answers for the seed"
    )
    return "\n".join(lines)


def read_translations(run: Path, result: dict[str, Any], name: str, references: Path | None = None) -> Translations:
    """Read the files that a run of a translation task leaves; raises DataError."""
    known = _sets(run, result)
    if name not in known:
        raise DataError(f"{run}: it translated no {name}; it has {', '.join(known)}")
    tokenized = "tok:none" in str(known[name])
    hypotheses = _lines(run / f"translations.{name}.txt", "repeat the run")
    own = references or run / f"references.{name}.txt"
    wanted = _lines(own, "repeat the run, or give --references FILE")
    return Translations(printable(str(run)), result["data"], tokenized, hypotheses, wanted)


def _first_set(run: Path, result: dict[str, Any]) -> str:
    known = _sets(run, result)
    return next((name for name in known if name != "valid"), "valid")


def _sets(run: Path, result: dict[str, Any]) -> dict[str, Any]:
    scores = facts_of(result).get("scores")
    if not isinstance(scores, dict) or not scores:
        raise DataError(f"{run}: a run of {result['task']} translates nothing; name runs of transformer or rnnsearch")
    return scores


def _lines(path: Path, way_out: str) -> list[str]:
    try:
        return path.read_bytes().decode().removesuffix("\n").split("\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {way_out}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not UTF-8; {way_out}") from error
