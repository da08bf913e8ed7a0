"""Subwords: text comes back, symbols typed in a text are text, and a size that does not fit is one line."""

import re

import numpy as np
import pytest
from corpora import sentences
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmsrepro.data.parallel.subwords import MAX_SENTENCE_BYTES, Subwords, learn_subwords
from rmsrepro.data.parallel.symbols import BOS, EOS, PAD, UNK
from rmsrepro.errors import DataError

SYMBOLS = ["<s>", "</s>", "<unk>", "<pad>", "<0x41>", "▁", "▅", "@@", "⁇"]
NONCHARACTERS = "".join(map(chr, range(0xFDD0, 0xFDF0)))
ODD = [
    "\u2028",
    "\x85",
    "\r",
    "\t",
    "\x0b",
    "\ufeff",
    "\xa0",
    "\ufdd0",
    "\ufdd1",
    NONCHARACTERS,
    "ß",
    "日本",
    "🙂",
    "&apos;",
    "dog",
    " ",
]


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return sentences("en", 200) + sentences("de", 200)


@pytest.fixture(scope="module")
def subwords(corpus) -> Subwords:
    return Subwords(learn_subwords(corpus, 400)[0])


any_text = st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]))
odd_text = st.lists(st.sampled_from(SYMBOLS + ODD)).map("".join)


@settings(max_examples=150, deadline=None)
@given(line=any_text | odd_text)
@example(line=f"▁{NONCHARACTERS}▁▁\ufdd0\ufdd1▁\ufdd1\ufdd1\ufdd0▁")
def test_text_comes_back_and_never_becomes_a_symbol(subwords, line):
    ids = subwords.encode(line)
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert subwords.decode(ids) == re.sub(" +", " ", line).strip(" ")
    assert subwords.encode_lines([line, "dog"]) == [ids, subwords.encode("dog")]


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbols_that_the_text_is_full_of_are_learned_as_text(symbol, corpus):
    text = [f"{symbol} dog {symbol}{symbol}"] * 100 + corpus
    model, facts = learn_subwords(text, 400)
    subwords = Subwords(model)
    assert facts.sentences == len(text)
    assert len(subwords) == 400
    assert not {PAD, UNK, BOS, EOS} & set(subwords.encode(text[0]))
    assert subwords.decode(subwords.encode(text[0])) == text[0]


def test_symbols_among_ids_are_no_output(subwords):
    ids = subwords.encode("the small dog")
    assert subwords.decode([BOS, *ids, EOS, PAD, PAD]) == "the small dog"
    assert subwords.decode(np.array([BOS, *ids, EOS], np.uint16)) == "the small dog"
    assert subwords.decode([EOS, PAD]) == ""


def test_whatever_a_model_emits_is_one_line(subwords):
    line = subwords.decode(range(len(subwords)))
    assert "\n" not in line
    assert "\0" not in line


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (32_000, r"supports at most \d+"),
        (5, r"needs at least \d+"),
        (265, r"needs at least \d+"),
        (0, "refuses it"),
        (1 << 31, "refuses it"),
    ],
)
def test_a_size_that_does_not_fit_is_one_line_with_the_key_and_what_is_allowed(size, told, corpus):
    with pytest.raises(DataError, match=rf"^task\.vocabulary={size}: .*{told}") as error:
        learn_subwords(corpus, size)
    assert "\n" not in str(error.value)


def test_the_sizes_that_are_allowed_work(corpus):
    for wrong in (5, 32_000):
        with pytest.raises(DataError) as error:
            learn_subwords(corpus, wrong)
        allowed = int(re.search(r"at (?:most|least) (\d+)", str(error.value))[1])
        assert len(Subwords(learn_subwords(corpus, allowed)[0])) == allowed
        with pytest.raises(DataError):
            learn_subwords(corpus, allowed + (1 if wrong > allowed else -1))


def test_a_sentence_too_long_to_learn_from_is_counted_and_can_be_encoded(corpus):
    long = "dog" * MAX_SENTENCE_BYTES
    model, facts = learn_subwords([*corpus, long, "x" * 70_000], 400)
    assert (facts.sentences, facts.skipped_too_long) == (len(corpus), 2)
    subwords = Subwords(model)
    assert subwords.decode(subwords.encode(long)) == long


def test_sentences_up_to_the_limit_are_learned_from(corpus):
    word = "q" * MAX_SENTENCE_BYTES
    model, facts = learn_subwords([*corpus, word], 400)
    assert facts.skipped_too_long == 0
    assert len(Subwords(model).encode(word)) < MAX_SENTENCE_BYTES // 4
