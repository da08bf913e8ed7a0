"""One cloze question in the layout of DeepMind's rc-data (Hermann et al. 2015): read it, write it.

A `.question` file has the article's address, the passage, the question, the answer and the entities' names, one
`@entityN:name` a line, with a blank line between these parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PLACEHOLDER = "@placeholder"
_ENTITY = re.compile(r"@entity\d+")
_PARTS = {0: "an address", 2: "a passage", 4: "a question", 6: "an answer"}
_BYTE_ORDER_MARK = "\ufeff"


class BrokenQuestionError(ValueError):
    """A file that holds no whole question; the text says what is missing."""


@dataclass(frozen=True)
class Question:
    """A passage, a question with a gap, and the entity that fills it; words as the file has them."""

    address: str
    passage: Sequence[str]
    question: Sequence[str]
    answer: str
    entities: Mapping[str, str] = field(default_factory=dict)
    """Entity by name: `@entity3` stands for what."""
    duplicates: int = 0
    """Lines of the entity map that repeat an entity; the first one counts."""


def is_entity(word: str) -> bool:
    """Say whether `word` is the mark of an entity, `@entityN`, whatever N is."""
    return _ENTITY.fullmatch(word) is not None


def parse_question(content: bytes) -> Question:
    """Read one file; Windows line ends, a byte-order mark and a missing last line end change nothing.

    Raises:
        BrokenQuestionError: it is cut short, not UTF-8, or lacks the gap or an entity as the answer.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenQuestionError(
            f"not UTF-8: byte 0x{content[error.start]:02X} at offset {error.start} ({error.reason})"
        ) from error
    lines = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").split("\n")
    for number, what in _PARTS.items():
        if len(lines) <= number or not lines[number].strip():
            raise BrokenQuestionError(f"line {number + 1} should hold {what}; the file may be cut short")
    for number in (1, 3, 5):
        if lines[number].strip():
            raise BrokenQuestionError(f"line {number + 1} should be blank")
    passage, question, answer = lines[2].split(), lines[4].split(), lines[6].strip()
    if PLACEHOLDER not in question:
        raise BrokenQuestionError(f"the question has no {PLACEHOLDER}")
    if not is_entity(answer):
        raise BrokenQuestionError(f"the answer is {answer[:40]!r} and no @entityN")
    entities: dict[str, str] = {}
    duplicates = 0
    for line in filter(None, map(str.strip, lines[7:])):
        # Names may hold colons; marks do not.
        entity, _, name = line.partition(":")
        duplicates += entity in entities
        entities.setdefault(entity, name)
    if not entities and answer not in passage:
        raise BrokenQuestionError("the answer is not in the passage and no entity is named; the file may be cut short")
    return Question(lines[0].strip(), passage, question, answer, entities, duplicates)


def format_question(question: Question) -> bytes:
    """Write a question as a file of rc-data, its last line without an end as theirs."""
    parts = [question.address, " ".join(question.passage), " ".join(question.question), question.answer]
    names = "\n".join(f"{entity}:{name}" for entity, name in question.entities.items())
    return "\n\n".join([*parts, names]).encode()
