"""The pairs that this project trains on as text for others: the same sentences, cut into the same subwords."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
import torch

from rmsrepro.compose import compose_config
from rmsrepro.data.parallel.encoded import EncodedPairs
from rmsrepro.data.parallel.subwords import Subwords
from rmsrepro.data.parallel.symbols import EOS
from rmsrepro.tasks.base import build_task
from rmsrepro.tasks.translation.task import TranslationTask

#: The suffixes of the two sides, whatever the languages are.
SIDES = ("src", "tgt")


@dataclass(frozen=True)
class Corpus:
    """`train`, `valid` and `test`, each `<name>.src` and `<name>.tgt`: subwords between spaces; and `subwords.txt`."""

    folder: Path
    train_pairs: int
    test_sentences: int
    subwords: int

    @property
    def vocabulary(self) -> Path:
        """All subwords but the four symbols, one a line."""
        return self.folder / "subwords.txt"

    def file(self, split: str, side: str) -> Path:
        """Return one side of a split."""
        return self.folder / f"{split}.{side}"


def export(overrides: Sequence[str], folder: Path, test_sentences: int | None) -> Corpus:
    """Prepare the data that `overrides` describe, as a run would, and write it down below `folder`.

    The first set of test sentences, or else of validation sentences, is cut to so many.
    """
    task = build_task(compose_config(["task=transformer", *overrides]), torch.device("cpu"))
    assert isinstance(task, TranslationTask)
    task.load()
    data = task.data
    pieces = _pieces(data.vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    test = next(iter(data.tests.values()), data.valid)
    corpus = Corpus(folder, len(data.train), min(len(test), test_sentences or len(test)), len(pieces))
    _write(corpus, "train", data.train, pieces, corpus.train_pairs)
    _write(corpus, "valid", data.valid.pairs, pieces, len(data.valid))
    _write(corpus, "test", test.pairs, pieces, corpus.test_sentences)
    _write_lines(corpus.vocabulary, pieces[EOS + 1 :])
    return corpus


def _pieces(vocabulary: Subwords) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.model)
    return [processor.id_to_piece(i) for i in range(len(vocabulary))]


def _write(corpus: Corpus, split: str, pairs: EncodedPairs, pieces: Sequence[str], count: int) -> None:
    for side, sentences in zip(SIDES, (pairs.source, pairs.target), strict=True):
        lines = (" ".join(pieces[i] for i in sentences[number]) for number in range(count))
        _write_lines(corpus.file(split, side), lines)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
