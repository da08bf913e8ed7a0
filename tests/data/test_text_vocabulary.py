"""Vocabularies come from the training text only; words they lack become <unk> and are counted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmsrepro.data.vocabulary import END, UNKNOWN, TokenStream, Vocabulary

LINES = ["the cat sat", "the dog", ""]


def decode(vocabulary: Vocabulary, stream: TokenStream) -> list[str]:
    return [vocabulary.words[i] for i in stream.ids]


def test_every_line_ends_with_an_end_of_sentence():
    vocabulary = Vocabulary.from_lines(LINES)
    assert decode(vocabulary, vocabulary.encode(LINES)) == ["the", "cat", "sat", END, "the", "dog", END, END]


def test_frequent_words_come_first_and_the_order_is_fixed():
    assert Vocabulary.from_lines(LINES).words == (END, "the", "cat", "dog", "sat", UNKNOWN)
    assert Vocabulary.from_lines(LINES).sha256() == Vocabulary.from_lines(LINES).sha256()
    assert Vocabulary.from_lines(LINES).sha256() != Vocabulary.from_lines(LINES[:1]).sha256()


def test_unseen_words_become_unk_and_are_told_from_a_literal_unk():
    vocabulary = Vocabulary.from_lines(LINES)
    stream = vocabulary.encode(["a cat saw the <unk>"])
    assert decode(vocabulary, stream) == [UNKNOWN, "cat", UNKNOWN, "the", UNKNOWN, END]
    assert stream.outside.tolist() == [True, False, True, False, False, False]
    assert stream.unknown.sum() == 3


def test_rare_words_are_merged_into_unk_which_then_has_their_counts():
    assert Vocabulary.from_lines(["a a a b b c d", "a"], min_count=2).words == ("a", END, UNKNOWN, "b")


def test_a_shortened_stream_counts_only_what_is_left():
    stream = Vocabulary.from_lines(LINES).encode(["new the new"]).first(2)
    assert (len(stream), stream.outside.sum(), stream.unknown.sum()) == (2, 1, 1)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "ß", "<unk>"]), max_size=5).map(" ".join), max_size=6))
def test_a_text_survives_its_own_vocabulary(lines):
    vocabulary = Vocabulary.from_lines(lines)
    stream = vocabulary.encode(lines)
    assert decode(vocabulary, stream) == [word for line in lines for word in [*line.split(), END]]
    assert not stream.outside.any()
    assert stream.ids.dtype == np.int32
