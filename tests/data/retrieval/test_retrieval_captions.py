"""Captions become numbers with their ends counted, whatever their order in a batch."""

import numpy as np

from rmsrepro.data.retrieval.captions import END_ID, UNKNOWN_ID, caption_vocabulary, encode_captions

LINES = ["a dog runs", "a dog", "", "the zebra", "dog dog dog dog"]


def test_the_vocabulary_starts_with_eos_and_unk_and_cuts_nothing_off():
    vocabulary = caption_vocabulary([["a dog", "a  cat"], ["dog a <unk>"]])
    assert vocabulary.words == ("<eos>", "<unk>", "a", "dog", "cat")


def test_each_caption_ends_with_eos_and_unseen_words_are_unknown():
    captions = encode_captions(LINES, caption_vocabulary([LINES[:2]]))
    assert captions.lengths.tolist() == [4, 3, 1, 3, 5]
    assert captions.ids[captions.starts[1:] - 1].tolist() == [END_ID] * 5
    assert captions.ids[captions.starts[3] : captions.starts[4]].tolist() == [UNKNOWN_ID, UNKNOWN_ID, END_ID]
    assert captions.unknown_rate() == 2 / 11


def test_a_batch_holds_the_captions_asked_for_and_eos_behind_them():
    captions = encode_captions(LINES, caption_vocabulary([LINES]))
    tokens, lengths = captions.padded(np.array([4, 2, 0]))
    assert lengths.tolist() == [5, 1, 4]
    assert tokens.shape == (5, 3)
    for column, row in enumerate((4, 2, 0)):
        own = captions.ids[captions.starts[row] : captions.starts[row + 1]]
        assert tokens[: len(own), column].tolist() == own.tolist()
        assert (tokens[len(own) :, column] == END_ID).all()


def test_the_first_captions_are_those_of_the_first_lines():
    captions = encode_captions(LINES, caption_vocabulary([LINES]))
    first = captions.first(2)
    assert len(first) == 2
    assert first.ids.tolist() == captions.ids[:7].tolist()
