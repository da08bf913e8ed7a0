"""Subwords: byte-pair encoding by sentencepiece, from which every text comes back."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sentencepiece

from rmsrepro.data.files import sha256_hex
from rmsrepro.data.parallel.symbols import BOS, EOS, PAD, UNK
from rmsrepro.errors import DataError

MAX_SENTENCE_BYTES = 8192
"""Longer sentences teach the vocabulary nothing: the trainer cannot hold a word of more than 65,535 characters."""

_META = "▁"  # sentencepiece's own sign for a space; in a text it is spelt in bytes
_META_BYTES = _META.encode()
# Code points that never stand for characters; none is learned, so that each is spelt in bytes.
_RESERVED = str.maketrans({_META: " ", "▅": " ", **{chr(code): " " for code in range(0xFDD0, 0xFDF0)}})
_EDGE, _INNER = "\ufdd0", "\ufdd1"
_TOO_LARGE = re.compile(r"Vocabulary size too high .* <= (\d+)")
_TOO_SMALL = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


@dataclass
class LearningFacts:
    """How many sentences a vocabulary was learned from, and what was left out."""

    sentences: int = 0
    skipped_too_long: int = 0
    """More than MAX_SENTENCE_BYTES bytes."""


class Subwords:
    """A trained vocabulary; ids 0 to 3 are PAD, UNK, BOS and EOS, which no text turns into.

    Characters that the vocabulary lacks are spelt in UTF-8 bytes, so there are no unknown words: decoding an encoded
    line gives the line again, save that runs of spaces become one and those at the ends go.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)  # the constructor would take an empty one for none
        self._meta_ids = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in _META_BYTES]

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    @property
    def sha256(self) -> str:
        """The checksum of the model."""
        return sha256_hex(self.model)

    def encode(self, line: str) -> list[int]:
        """Return the ids of one line, without BOS and EOS."""
        if _META not in line:
            return self._processor.encode(line)
        longest = max(map(len, re.findall(f"{_INNER}+", line)), default=0)
        stand_in = f"{_EDGE}{_INNER * (longest + 1)}{_EDGE}"  # no line has it, whatever it holds
        spelt = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in stand_in.encode()]
        return _replaced(self._processor.encode(line.replace(_META, stand_in)), spelt, self._meta_ids)

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of many lines, in one call where that is possible."""
        if any(_META in line for line in lines):
            return [self.encode(line) for line in lines]
        return self._processor.encode(list(lines))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the line that `ids` spell; PAD, BOS and EOS are nothing, UNK is `⁇`.

        Always one line: a line feed or NUL that a model spelt in bytes becomes a space.
        """
        text = self._processor.decode([*map(int, ids)])  # it leaves control symbols out
        return text.replace("\n", " ").replace("\0", " ")


def learn_subwords(sentences: Iterable[str], size: int, threads: int = 2) -> tuple[bytes, LearningFacts]:
    """Return a sentencepiece model of `size` subwords and what it was learned from.

    Raises:
        DataError: there is no text, or `size` is more or less than the text allows.
    """
    facts, model = LearningFacts(), io.BytesIO()
    usable = _usable(sentences, facts)
    first = next(usable, None)
    if first is None:
        raise DataError(
            f"no sentence is left to learn subwords from: {facts.skipped_too_long} have more than "
            f"{MAX_SENTENCE_BYTES} bytes, all others are blank or hold a NUL; the training files need "
            "one sentence a line"
        )
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chain(first, usable),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            byte_fallback=True,
            character_coverage=0.9999,  # what is rarer is spelt in bytes, which then are trained
            normalization_rule_name="identity",
            max_sentence_length=4 * MAX_SENTENCE_BYTES,  # so that the trainer itself skips none
            num_threads=threads,
            minloglevel=2,
        )
    except (RuntimeError, ValueError) as error:  # a size that is no 32-bit number is a ValueError
        raise _size_error(str(error), size) from error
    return model.getvalue(), facts


def _usable(sentences: Iterable[str], facts: LearningFacts) -> Iterator[str]:
    for sentence in sentences:
        text = sentence.translate(_RESERVED).strip() if not sentence.isascii() else sentence.strip()
        if not text or "\0" in text:
            continue
        if len(text.encode()) > MAX_SENTENCE_BYTES:
            facts.skipped_too_long += 1
            continue
        facts.sentences += 1
        yield text


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _size_error(message: str, size: int) -> DataError:
    if found := _TOO_LARGE.search(message):
        allowed = f"this corpus supports at most {found[1]}"
    elif found := _TOO_SMALL.search(message):
        allowed = f"this corpus needs at least {found[1]}: 4 symbols, 256 bytes and its characters"
    else:
        allowed = f"sentencepiece refuses it ({message.strip()})"
    return DataError(f"task.vocabulary={size}: {allowed}; set task.vocabulary to a number that fits")


def _replaced(ids: list[int], old: list[int], new: list[int]) -> list[int]:
    """Return `ids` with every run `old` replaced by `new`."""
    result, at = [], 0
    while at < len(ids):
        if ids[at : at + len(old)] == old:
            result += new
            at += len(old)
        else:
            result.append(ids[at])
            at += 1
    return result
