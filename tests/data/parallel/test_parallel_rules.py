"""Which training pairs are dropped, what evaluation keeps, and that all of it is counted."""

import pytest
from corpora import training_text

from rmsrepro.errors import DataError

BLANK = ["", " ", "\t", "\u3000 \xa0"]


@pytest.fixture
def spoil(put, corpus):
    """Replace lines of a split: {line number: text} for each language."""

    def replace(stem: str, **lines: dict[int, str]) -> None:
        for language, changes in lines.items():
            content = corpus[f"{stem}.{language}"]
            for number, text in changes.items():
                content[number] = text
            put(f"{stem}.{language}", content)

    return replace


@pytest.mark.parametrize("blank", BLANK)
def test_pairs_with_a_blank_side_leave_training_on_both_sides(blank, spoil, corpus, load):
    before = list(zip(corpus["train.en"], corpus["train.de"], strict=True))
    spoil("train", en={0: blank, 2: blank, 299: blank}, de={1: blank, 2: blank})
    data = load()
    assert training_text(data) == before[3:299]
    facts = data.facts()["train"]
    assert (facts["read"], facts["kept"], facts["dropped_empty"]) == (300, 296, 4)


@pytest.mark.parametrize("blank", BLANK)
@pytest.mark.parametrize("stem", ["valid", "test"])
def test_blank_lines_of_an_evaluation_set_stay_where_they_are(stem, blank, spoil, corpus, load):
    spoil(stem, en={0: blank, 2: blank, 19: blank}, de={1: blank, 2: blank})
    data = load()
    split = data.valid if stem == "valid" else data.tests["test"]
    assert (split.sources, split.references) == (corpus[f"{stem}.en"], corpus[f"{stem}.de"])
    assert len(split) == len(split.pairs) == 20
    assert split.sources[1] == data.vocabulary.decode(split.pairs.pair(1)[0])
    assert split.sources[18] == data.vocabulary.decode(split.pairs.pair(18)[0])
    facts = data.facts()["evaluation"][stem]
    assert (facts["segments"], facts["blank_sources"], facts["blank_references"]) == (20, 3, 2)


def test_nul_drops_a_training_pair_and_leaves_an_evaluation_line(spoil, corpus, load):
    expected = list(zip(corpus["train.en"], corpus["train.de"], strict=True))
    spoil("train", en={5: "a\0b", 7: "\0"}, de={6: "\0a", 7: "\0"})
    spoil("test", en={3: "the\0 dog\0"})
    data = load()
    assert training_text(data) == expected[:5] + expected[8:]
    assert data.facts()["train"]["dropped_nul"] == 3
    assert data.tests["test"].sources[3] == "the dog"
    assert data.facts()["evaluation"]["test"]["nuls_removed"] == 2


def test_pairs_over_the_length_leave_training_and_none_leaves_evaluation(spoil, corpus, load):
    expected = list(zip(corpus["train.en"], corpus["train.de"], strict=True))
    long = "dog " * 6000
    spoil("train", en={10: long}, de={11: long, 12: "x" * 70_000})
    spoil("valid", en={1: long})
    data = load(max_length=60)
    assert training_text(data) == expected[:10] + expected[13:]
    assert data.facts()["train"]["dropped_too_long"] == 3
    assert data.facts()["vocabulary"]["skipped_too_long"] == 3
    assert data.valid.pairs.source_lengths[1] > 6000
    assert data.facts()["evaluation"]["valid"]["longest_source"] == data.valid.pairs.source_lengths[1]


def test_the_length_counts_subwords_and_is_inclusive(corpus, load):
    longest = max(load().train.source_lengths.max(), load().train.target_lengths.max()) - 1  # without EOS
    assert load(max_length=int(longest)).facts()["train"]["dropped_too_long"] == 0
    assert load(max_length=int(longest) - 1).facts()["train"]["dropped_too_long"] > 0


@pytest.mark.parametrize("line", ["x" * 70_000, "\0", ""])
def test_a_corpus_of_which_nothing_is_left_is_refused(line, put, corpus, load):
    for language in ("en", "de"):
        put(f"train.{language}", [line] * 20)
    with pytest.raises(DataError, match=r"no sentence is left .*one sentence a line"):
        load()


def test_a_corpus_of_only_over_long_pairs_is_refused_with_the_rule(corpus, load):
    with pytest.raises(DataError, match=r"no pair is left .*dropped_too_long: 300.*task\.max_length=1 "):
        load(max_length=1)


def test_copies_and_training_pairs_in_evaluation_are_counted(spoil, corpus, load):
    spoil("train", de={number: corpus["train.en"][number] for number in range(15)})
    spoil("test", en={0: corpus["train.en"][100], 1: corpus["train.en"][101]}, de={0: corpus["train.de"][100]})
    spoil("valid", en={4: "same"}, de={4: "same"})
    facts = load().facts()
    assert facts["train"]["source_is_target"] == 15
    assert facts["evaluation"]["test"]["also_in_training"] == 1
    assert facts["evaluation"]["valid"]["source_is_target"] == 1


def test_every_pair_read_is_kept_or_counted_under_one_rule(spoil, load):
    spoil("train", en={0: "", 1: "\0", 2: "a " * 500, 3: "\0"}, de={1: "", 2: "", 3: "a " * 500})
    facts = load().facts()["train"]
    dropped = {rule: count for rule, count in facts.items() if rule.startswith("dropped")}
    assert facts["read"] == 300 == facts["kept"] + sum(dropped.values())
    assert dropped == {"dropped_empty": 2, "dropped_nul": 2, "dropped_too_long": 0}


def test_only_the_first_pairs_are_trained_on_under_a_limit(corpus, load):
    data = load(limit_pairs=7, vocabulary=300)
    assert training_text(data) == list(zip(corpus["train.en"], corpus["train.de"], strict=True))[:7]
    assert data.facts()["vocabulary"]["sentences"] == 14


def test_lower_case_is_asked_for(spoil, corpus, load):
    spoil("train", en={0: "The DOG"}, de={0: "Der GROSSE Ä"})
    spoil("test", en={0: "The DOG"}, de={0: "Der HUND"})
    data = load(lowercase=True)
    assert training_text(data)[0] == ("the dog", "der grosse ä")
    assert (data.tests["test"].sources[0], data.tests["test"].references[0]) == ("the dog", "der hund")
    assert training_text(load())[0] == ("The DOG", "Der GROSSE Ä")


def test_languages_can_be_turned_round(corpus, load):
    forth, back = load(), load(source="de", target="en")
    assert training_text(back) == [(target, source) for source, target in training_text(forth)]
    assert back.valid.sources == forth.valid.references
