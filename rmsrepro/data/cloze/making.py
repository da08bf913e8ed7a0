"""Make cloze questions from sentences whose entities are known, as Hermann et al. (2015) did from news."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from rmsrepro.data.cloze.archive import SPLIT_FOLDERS, forget_members
from rmsrepro.data.cloze.question import PLACEHOLDER, Question, format_question


@dataclass(frozen=True)
class Mention:
    """A name in a text, such as `Gyp Carmer`: one word of a passage."""

    name: str


Sentence = Sequence[str | Mention]


@dataclass(frozen=True)
class MadeQuestion:
    """A question, the split it belongs to and the name of its file."""

    split: str
    question: Question

    @property
    def name(self) -> str:
        """The SHA-1 of address and answer, as long as the names of rc-data."""
        return hashlib.sha1(f"{self.question.address}\n{self.question.answer}".encode()).hexdigest()


def names(sentences: Iterable[Sentence]) -> set[str]:
    """Return the names that some sentences mention."""
    return {word.name for sentence in sentences for word in sentence if isinstance(word, Mention)}


def make_question(address: str, passage: Sequence[Sentence], asked: Sentence, answer: str) -> Question:
    """Ask for `answer`: it leaves a gap in the sentence `asked`, and every name becomes the mark of an entity.

    Marks are numbered in an order that says nothing of the text, differently at every address.
    """
    found = names([*passage, asked])
    order = sorted(found, key=lambda name: hashlib.sha1(f"{address}\n{name}".encode()).digest())
    marks = {name: f"@entity{number}" for number, name in enumerate(order)}
    gap = marks | {answer: PLACEHOLDER}
    return Question(
        address,
        [word for sentence in passage for word in _marked(sentence, marks)],
        list(_marked(asked, gap)),
        marks[answer],
        {marks[name]: name for name in sorted(found)},
    )


def _marked(sentence: Sentence, marks: dict[str, str]) -> Iterator[str]:
    for word in sentence:
        yield marks[word.name] if isinstance(word, Mention) else word.lower()


def write_archive(file: IO[bytes], folder: str, questions: Iterable[MadeQuestion]) -> None:
    """Write questions as a tar archive in rc-data's layout; the same questions make the same bytes."""
    parts = {split: name for name, split in SPLIT_FOLDERS.items()}
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for made in questions:
            content = format_question(made.question)
            info = tarfile.TarInfo(f"{folder}/questions/{parts[made.split]}/{made.name}.question")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
            forget_members(archive)
