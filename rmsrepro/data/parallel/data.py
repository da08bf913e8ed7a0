"""From the name of a parallel data set to encoded pairs, a vocabulary and evaluation sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsrepro.data.parallel.catalog import parallel_data_set
from rmsrepro.data.parallel.data_set import variants
from rmsrepro.data.parallel.encoded import EncodedPairs
from rmsrepro.data.parallel.evaluation import EvaluationSet, read_evaluation_set
from rmsrepro.data.parallel.file_pairs import ExaminedPair, examine_pair
from rmsrepro.data.parallel.options import PairOptions
from rmsrepro.data.parallel.prepared import TrainingText, prepare
from rmsrepro.data.parallel.subwords import Subwords
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

__all__ = ["EncodedPairs", "EvaluationSet", "PairOptions", "Subwords", "TranslationData", "load_pairs"]


@dataclass(frozen=True)
class TranslationData:
    """A parallel corpus that is ready to train on and to be scored with."""

    name: str
    vocabulary: Subwords
    train: EncodedPairs
    valid: EvaluationSet
    tests: dict[str, EvaluationSet]
    """By the name they are reported under; may be empty."""
    recorded: dict[str, Any]
    files: tuple[ExaminedPair, ...]

    @property
    def tokenized(self) -> bool:
        """The text is tokenised already and is to be scored as it is."""
        return self.recorded["tokenized"]

    def facts(self) -> dict[str, Any]:
        """Return sizes, and what was dropped or altered by which rule."""
        return self.recorded

    def checksums(self) -> dict[str, str]:
        """Return the checksum of each file, the same with any line ends and compression, and of the vocabulary."""
        sums = {
            f"{pair.files.stem}.{language}": f"sha256:{side.sha256}"
            for pair in self.files
            for language, side in zip(self.recorded["languages"], pair.sides, strict=True)
        }
        return {**sums, "subwords.model": f"sha256:{self.vocabulary.sha256}"}


def load_pairs(name: str, root: Path, options: PairOptions, cache: Path) -> TranslationData:
    """Return the parallel data set called `name` below `root`, fetching and preparing what is not there.

    `cache` is a folder for what is made of it: vocabularies, encoded pairs and checksums, by keys of content and
    options. Several processes may call this at once; one works, the others wait.

    Raises:
        ConfigError: `name` is no parallel data set, or has no variant such as the options ask for.
        DataError: a file is missing, damaged, in another encoding or of another length than its counterpart; no pair
            is left to train on; or the vocabulary does not fit the text.
    """
    data_set = parallel_data_set(name, options)
    files = data_set.find(root, options.languages, cache / "fetched" / name)
    memory = cache / "examined"
    parts = tuple(examine_pair(part, memory) for part in files.train)
    valid = examine_pair(files.valid, memory)
    tests = _named_by_content(
        {test: examine_pair(pair, memory) for test, pair in files.tests.items()}, data_set.segments
    )

    text = TrainingText(parts, options.limit_pairs, options.lowercase)
    prepared = prepare(text, options.vocabulary, options.max_length, cache / name)
    if not len(prepared.pairs):
        dropped = ", ".join(f"{rule}: {count}" for rule, count in prepared.counts.items() if count)
        raise DataError(
            f"{parts[0].files.source}: no pair is left to train on ({dropped}); pairs with a blank side, a NUL or "
            f"more than task.max_length={options.max_length} subwords are dropped"
        )
    evaluation = {
        test: read_evaluation_set(test, pair, prepared.subwords, options.lowercase)
        for test, pair in {data_set.valid: valid, **tests}.items()
    }
    facts = {
        "languages": list(options.languages),
        "tokenized": options.tokenized or data_set.tokenized,
        "lowercase": options.lowercase,
        "vocabulary": {"size": len(prepared.subwords), **prepared.vocabulary_facts},
        "train": {**prepared.counts, **_line_end_facts(parts)},
        "evaluation": {
            test: {**pairs.facts(prepared.hashes), **_line_end_facts([examined])}
            for (test, pairs), examined in zip(evaluation.items(), [valid, *tests.values()], strict=True)
        },
    }
    return TranslationData(
        name,
        prepared.subwords,
        prepared.pairs,
        valid=evaluation.pop(data_set.valid),
        tests=evaluation,
        recorded=facts,
        files=(*parts, valid, *tests.values()),
    )


def _named_by_content(tests: dict[str, ExaminedPair], segments: Mapping[str, int]) -> dict[str, ExaminedPair]:
    """Return the test sets by name; one with the lines of a variant of it, such as the full newstest2014, is that one.

    Where the variant is there under its own name too, it is reported once.
    """
    named = {}
    for name, pair in tests.items():
        content = next((other for other, lines in variants(name, segments).items() if lines == pair.lines), name)
        if content != name and content in tests and tests[content].lines == pair.lines:
            say(f"going on without {pair.files.source}: its {pair.lines} lines are those of {content}, which is there")
        else:
            named[content] = pair
    return named


def _line_end_facts(files: Sequence[ExaminedPair]) -> dict[str, int]:
    """Count what was no part of the text."""
    sides = [side for pair in files for side in pair.sides]
    return {
        "byte_order_marks_removed": sum(side.byte_order_mark for side in sides),
        "carriage_returns_removed": sum(side.carriage_returns for side in sides),
    }
