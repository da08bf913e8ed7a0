"""Parse an archive of questions once, in one pass and bounded memory, into the files of a ClozeStore."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rmsrepro.data.cloze.archive import SPLIT_FOLDERS, read_members
from rmsrepro.data.cloze.question import BrokenQuestionError, Question, parse_question
from rmsrepro.data.cloze.sentences import select_sentences
from rmsrepro.data.cloze.store import COLUMNS, COUNTS, META, WORDS
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError

#: More broken files than this share mean that the archive is something else.
_BROKEN_SHARE = 0.1
_SHOWN = 3
_REPORT_EVERY = 50_000
_FLUSH_WORDS = 1 << 20


class _Numbers(dict[str, int]):
    """Gives every new word the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _SplitWriter:
    """Writes one split's files while the archive is read."""

    def __init__(self, folder: Path, split: str, files: ExitStack) -> None:
        self._folder, self._split = folder, split
        self._tokens: BinaryIO = files.enter_context((folder / f"{split}.tokens.i32").open("wb"))
        # A name in an archive may be no UTF-8.
        names = folder / f"{split}.names.txt"
        self._names = files.enter_context(names.open("w", encoding="utf-8", errors="backslashreplace"))
        self._rows, self._start = array("q"), 0
        self.counts: Counter[str] = Counter()

    def add(self, name: str, passage: list[int], question: list[int], answer: int) -> None:
        """Write one question."""
        self._tokens.write(np.array(passage + question, np.int32).tobytes())
        self._rows.extend((self._start, len(passage), len(question), answer))
        self._start += len(passage) + len(question)
        self._names.write(name + "\n")

    def finish(self) -> int:
        """Write the rows; return how many questions there are."""
        rows = np.frombuffer(self._rows, np.int64) if self._rows else np.zeros(0, np.int64)
        np.save(self._folder / f"{self._split}.rows.npy", rows.reshape(-1, len(COLUMNS)))
        return len(rows) // len(COLUMNS)


class _WordCounts:
    """Counts word numbers a million at a time."""

    def __init__(self) -> None:
        self._total, self._pending = np.zeros(0, np.int64), array("i")

    def add(self, numbers: list[int]) -> None:
        self._pending.extend(numbers)
        if len(self._pending) > _FLUSH_WORDS:
            self.result(len(self._total))

    def result(self, words: int) -> np.ndarray:
        """Return the counts [at least `words`] so far."""
        new = np.bincount(np.frombuffer(self._pending, np.int32), minlength=max(words, len(self._total)))
        new[: len(self._total)] += self._total
        self._total, self._pending = new.astype(np.int64), array("i")
        return self._total


def parse_archive(archive: Path, folder: Path, sentences: int | None, sha256: str) -> None:
    """Read `archive` into `folder`, keeping `sentences` sentences of a passage, all for None.

    A file that holds no whole question is skipped and counted; words are lower-cased.

    Raises:
        DataError: the archive is damaged, or has no questions, or more than a tenth of them are broken.
    """
    numbers, counts, read, outside = _Numbers(), _WordCounts(), 0, 0
    broken: list[str] = []
    with ExitStack() as files:
        writers = {split: _SplitWriter(folder, split, files) for split in SPLIT_FOLDERS.values()}
        for member in read_members(archive):
            if member.split is None:
                outside += 1
                continue
            read += 1
            if read % _REPORT_EVERY == 0:
                say(f"reading {archive.name}: {read} questions")
            writer = writers[member.split]
            try:
                question = parse_question(member.content)
            except BrokenQuestionError as error:
                writer.counts["broken"] += 1
                broken.append(f"{member.split}/{member.name}.question: {error}")
                continue
            passage = _passage(question, sentences)
            _count(writer.counts, question, passage)
            ids = [[numbers[word.lower()] for word in part] for part in (passage, question.question, [question.answer])]
            writer.add(member.name, ids[0], ids[1], ids[2][0])
            if member.split == "train":
                for part in ids:
                    counts.add(part)
        sizes = {split: writer.finish() for split, writer in writers.items()}
    _complain(archive, read, outside, broken)
    facts = {split: {"questions": sizes[split], **writers[split].counts} for split in writers if sizes[split]}
    _write_meta(folder, sha256, facts, list(numbers), counts.result(len(numbers)))


def _passage(question: Question, sentences: int | None) -> list[str]:
    if sentences is None:
        return list(question.passage)
    return select_sentences(question.passage, question.question, sentences)


def _count(counts: Counter[str], question: Question, passage: list[str]) -> None:
    """Count what a model cannot get right or what the file says twice."""
    absent = question.answer not in passage
    counts["answer_not_in_passage"] += absent
    counts["answer_dropped_with_its_sentence"] += absent and question.answer in question.passage
    counts["duplicate_entities"] += question.duplicates


def _complain(archive: Path, read: int, outside: int, broken: list[str]) -> None:
    if not read:
        found = f"{outside} .question files outside them" if outside else "no .question file at all"
        raise DataError(
            f"{archive} has no questions in folders called {', '.join(SPLIT_FOLDERS)} ({found}); "
            "expected DeepMind's rc-data layout, questions/training/*.question"
        )
    if outside:
        say(f"{archive.name}: {outside} questions outside the folders {', '.join(SPLIT_FOLDERS)} are left out")
    if len(broken) > _BROKEN_SHARE * read:
        raise DataError(f"{archive}: {len(broken)} of {read} questions are broken, such as {broken[0]}")
    if broken:
        others = f" and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
        say(f"{archive.name}: {len(broken)} broken of {read} questions skipped: {'; '.join(broken[:_SHOWN])}{others}")


def _write_meta(folder: Path, sha256: str, facts: dict[str, Any], words: list[str], counts: np.ndarray) -> None:
    (folder / WORDS).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    np.save(folder / COUNTS, counts)
    (folder / META).write_text(json.dumps({"sha256": sha256, "splits": list(facts), "facts": facts}))
