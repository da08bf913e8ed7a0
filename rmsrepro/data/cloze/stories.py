"""Cloze questions from CNN/DailyMail `.story` files: each highlight asks for the names that the story mentions too.

The published questions found their entities with a coreference system; the rule here is plain. A name is the longest
run of words that begin with a capital, abbreviations such as U.S. among them. A run at the start of a sentence or
quotation counts only if it, or its rest without the first word, ends a name inside some sentence of the story too.
Pronouns and partial names are left alone: `Obama` and `Barack Obama` are two entities.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rmsrepro.data.cloze.making import MadeQuestion, Mention, Sentence, make_question, names
from rmsrepro.errors import DataError

_HIGHLIGHT = "@highlight"
_WORD = re.compile(r"(?:[A-Za-z]\.){2,}|\w+(?:[-'’]\w+)*|-{2,}|\.{3}|[^\w\s]")
_POSSESSIVE = re.compile(r"(?P<name>.+)(?P<ending>['’]s)$")
_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))\s+(?=[\"'“‘(]*[A-Z])")
_SPLIT_LISTS = {"train": "training", "valid": "validation", "test": "test"}
#: Without lists of addresses, of a hundred stories one validates and one tests.
_PARTS = 100


def read_story(text: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a story and its highlights."""
    body, *highlights = re.split(rf"^{_HIGHLIGHT}\s*$", text, flags=re.MULTILINE)
    paragraphs = [line.strip() for line in body.split("\n") if line.strip()]
    return paragraphs, [" ".join(part.split()) for part in highlights if part.strip()]


def sentences_of(paragraphs: list[str]) -> list[list[str]]:
    """Return the words of each sentence; a possessive's ending is a word."""
    texts = (text for paragraph in paragraphs for text in _SENTENCE.split(paragraph))
    return [words for text in texts if (words := list(_words(text)))]


def mark_names(sentence: list[str], inside: set[str]) -> Sentence:
    """Return a sentence with its names as mentions; `inside` are the ends of names found inside sentences."""
    marked: list[str | Mention] = []
    for start, run in _runs(sentence):
        name = " ".join(run)
        if not _is_name(run[0]):
            marked += run
        elif _is_inside(sentence, start) or name in inside:
            marked.append(Mention(name))
        elif len(run) > 1 and (rest := " ".join(run[1:])) in inside:
            marked += [run[0], Mention(rest)]
        else:
            marked += run
    return marked


def questions_of(address: str, text: str, split: str) -> Iterator[MadeQuestion]:
    """Yield a question for each name of each highlight that the story mentions."""
    paragraphs, highlights = read_story(text)
    story = sentences_of(paragraphs)
    inside = {
        " ".join(run[first:])
        for sentence in story
        for start, run in _runs(sentence)
        if _is_name(run[0]) and _is_inside(sentence, start)
        for first in range(len(run))
    }
    passage = [mark_names(sentence, inside) for sentence in story]
    mentioned = names(passage)
    for number, highlight in enumerate(highlights):
        asked = mark_names(list(_words(highlight)), inside | mentioned)
        for answer in sorted(names([asked]) & mentioned):
            yield MadeQuestion(split, make_question(f"{address}#{number}", passage, asked, answer))


def story_questions(folder: Path, lists: Path | None = None) -> Iterator[MadeQuestion]:
    """Yield the questions of all `.story` files below `folder`, by name.

    `lists` is a folder with files such as `wayback_training_urls.txt`, one address a line: a story is called after its
    address's SHA-1. Stories in none of them are left out. Without lists the name decides.

    Raises:
        DataError: there are no stories, no lists, or a story is not UTF-8.
    """
    stories = sorted(folder.rglob("*.story"), key=lambda path: path.name)
    if not stories:
        raise DataError(f"{folder} has no .story files; expected a folder such as cnn/stories")
    known = None if lists is None else _splits_by_name(lists)
    for path in stories:
        split = _split_by_hash(path.stem) if known is None else known.get(path.stem)
        if split is None:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8: byte offset {error.start} ({error.reason}); convert it") from error
        yield from questions_of(path.stem, text, split)


def _splits_by_name(lists: Path) -> Mapping[str, str]:
    splits: dict[str, str] = {}
    for split, word in _SPLIT_LISTS.items():
        files = sorted(lists.glob(f"*{word}*.txt"))
        if not files:
            raise DataError(f"{lists} has no list of {split} addresses; expected a file like wayback_{word}_urls.txt")
        for file in files:
            addresses = file.read_text(encoding="utf-8").split("\n")
            splits |= {hashlib.sha1(a.strip().encode()).hexdigest(): split for a in addresses if a.strip()}
    return splits


def _split_by_hash(name: str) -> str:
    part = int(hashlib.sha1(name.encode()).hexdigest(), 16) % _PARTS
    return {0: "valid", 1: "test"}.get(part, "train")


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        possessive = _POSSESSIVE.fullmatch(word)
        yield from possessive.group("name", "ending") if possessive else (word,)


def _is_name(word: str) -> bool:
    return word[0].isupper() and word != "I"


def _is_inside(sentence: list[str], start: int) -> bool:
    """Say whether a word before `start` is more than an opening quotation mark or bracket."""
    return any(word[0].isalnum() for word in sentence[:start])


def _runs(sentence: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the position and words of each run of names, and every other word by itself."""
    position = 0
    while position < len(sentence):
        end = position + 1
        if _is_name(sentence[position]):
            while end < len(sentence) and _is_name(sentence[end]):
                end += 1
        yield position, sentence[position:end]
        position = end
