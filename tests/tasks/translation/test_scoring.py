"""Scores are sacrebleu's over every segment; what cannot be scored is refused."""

import pytest
import sacrebleu

from rmsrepro.errors import DataError
from rmsrepro.tasks.translation.scoring import score

HYPOTHESES = ["The cat sat on the mat.", "rubbish of another kind", "and more of it here"]
REFERENCES = ["The cat sat on the mat.", "A dog runs across the field.", "Two men play chess outside."]


def test_scores_and_signatures_are_sacrebleus():
    found = score(HYPOTHESES, REFERENCES)
    assert found.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert found.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert "tok:13a|smooth:exp" in found.bleu_signature
    assert f"version:{sacrebleu.__version__}" in found.chrf_signature


def test_every_segment_counts():
    found = score(HYPOTHESES, REFERENCES)
    assert found.segments == 3
    assert found.bleu < 60
    assert score(HYPOTHESES[:1], REFERENCES[:1]).bleu == pytest.approx(100)


def test_tokenised_text_is_compared_as_it_is_and_labelled_so():
    found = score(["a dog 's house ."], ["a dog 's house ."], tokenized=True)
    assert "tok:none" in found.bleu_signature
    one, other = (score(["state-of-the-art , it is"], ["state-of-the-art, it is"], tokenized=t).bleu for t in (0, 1))
    assert one != other


@pytest.mark.parametrize(
    ("hypotheses", "references", "bleu"),
    [
        (["", "", ""], REFERENCES, 0.0),
        (["ja ja", "nein nein"], ["ja ja", "nein nein"], 0.0),
        (["yes"], ["no"], 0.0),
    ],
    ids=["all empty", "matches too short for four-grams", "one wrong word"],
)
def test_degenerate_sets_score_a_number(hypotheses, references, bleu):
    assert score(hypotheses, references).bleu == pytest.approx(bleu)


def test_empty_segments_are_scored_and_counted():
    found = score([HYPOTHESES[0], " ", HYPOTHESES[2]], [REFERENCES[0], REFERENCES[1], ""])
    assert (found.empty_hypotheses, found.empty_references, found.segments) == (1, 1, 3)
    assert 0 < found.bleu < 100


def test_unequal_numbers_are_refused_with_both():
    with pytest.raises(DataError, match="valid: 3 hypotheses for 2 references"):
        score(HYPOTHESES, REFERENCES[:2], name="valid")


@pytest.mark.parametrize("references", [[REFERENCES], [[r] for r in REFERENCES], REFERENCES[0]])
def test_references_nested_in_any_way_are_refused(references):
    with pytest.raises(DataError, match="one text for each segment"):
        score(HYPOTHESES, references)


def test_nothing_cannot_be_scored():
    with pytest.raises(DataError, match="no segment"):
        score([], [])
