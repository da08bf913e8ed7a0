"""The vocabulary knows the training questions and nothing else; the selector keeps the sentences that fit."""

import numpy as np
import pytest

from rmsrepro.data.cloze.cache import open_archive
from rmsrepro.data.cloze.sentences import select_sentences, split_sentences
from rmsrepro.data.cloze.vocabulary import NIL, SPECIAL, UNK, build_vocabulary


@pytest.fixture
def store(make_question, write_archive, cache):
    files = {
        "x/training/a.question": make_question("a a b <unk> @entity7 .", "b @placeholder @entity600", "@entity7"),
        "x/training/b.question": make_question("a rare @entity7 .", "@placeholder .", "@entity7"),
        "x/validation/c.question": make_question("zebra a @entity900 @entity7", "@placeholder a", "@entity900"),
        "x/validation/d.question": make_question("@entity7 @entity600 @entity901", "a @placeholder", "@entity901"),
    }
    return open_archive(write_archive(files), None, cache)


def encode(store, vocabulary, row):
    split = store.splits["valid"]
    passage, question, answer = vocabulary.encode(split.passage(row), split.question(row), split.rows[row, 3:])
    return passage.tolist(), question.tolist(), answer.tolist()


def test_it_holds_training_words_but_no_singletons_and_every_training_entity(store):
    vocabulary = build_vocabulary(store, 2)
    assert vocabulary.words == (*SPECIAL, "@entity7", "@entity600", ".", "a", "@placeholder", "b")
    assert [vocabulary.words[i] for i in vocabulary.entities] == ["@entity7", "@entity600"]
    assert "rare" in build_vocabulary(store, 1).words


def test_words_outside_it_and_a_literal_unk_are_unknown(store):
    vocabulary = build_vocabulary(store, 2)
    assert vocabulary.table[store.words.index("zebra")] == UNK
    assert vocabulary.table[store.words.index("rare")] == UNK
    assert vocabulary.table[store.words.index("<unk>")] == UNK
    assert NIL not in vocabulary.table


def test_an_entity_that_training_never_had_takes_the_place_of_one_that_the_question_has_not(store):
    vocabulary = build_vocabulary(store, 2)
    passage, _, answer = encode(store, vocabulary, 0)
    stand_in = vocabulary.words.index("@entity600")
    assert answer == [stand_in]
    assert passage.count(stand_in) == 1
    passage, _, answer = encode(store, vocabulary, 1)
    assert answer == [UNK], "all known entities are taken"
    assert passage.count(UNK) == 1


def test_the_checksum_is_of_the_words_in_their_order(store):
    assert build_vocabulary(store, 2).sha256() == build_vocabulary(store, 2).sha256()
    assert build_vocabulary(store, 2).sha256() != build_vocabulary(store, 1).sha256()


def test_sentences_end_behind_what_closes_a_quotation():
    text = "`` go ! '' he said . what ? no"
    assert [" ".join(part) for part in split_sentences(text.split())] == ["`` go ! ''", "he said .", "what ?", "no"]
    assert split_sentences([]) == []


def test_the_sentences_with_the_question_s_rarer_words_stay_in_their_order():
    passage = "the cat ran . the dog saw @entity1 . the end . the dog slept ."

    def kept(question: str, most: int) -> str:
        return " ".join(select_sentences(passage.split(), question.split(), most))

    assert kept("the dog saw @placeholder", 2) == "the dog saw @entity1 . the dog slept ."
    assert kept("@placeholder", 2) == "the cat ran . the dog saw @entity1 ."
    assert kept("dog", 4) == passage


def test_choosing_twice_chooses_the_same():
    rng = np.random.default_rng(1)
    passage = [*rng.choice(list("abcdefgh."), 200)]
    once = select_sentences(passage, list("aceg"), 4)
    assert select_sentences(once, list("aceg"), 4) == once
