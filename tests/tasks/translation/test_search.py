"""Beam search finds what enumeration finds, never what is forbidden, and no sentence depends on its neighbours."""

import math

import pytest
import torch
from tasks.translation.table_model import TableModel

from rmsrepro.data.parallel.batch import BOS, EOS, PAD, UNK
from rmsrepro.norms.factory import NormFactory, norm_config
from rmsrepro.tasks.transformer.config import Config
from rmsrepro.tasks.transformer.model import Transformer
from rmsrepro.tasks.translation.config import SearchConfig
from rmsrepro.tasks.translation.search import translate

PENALTIES = {"none": lambda n: 1.0, "length": lambda n: n**0.7, "gnmt": lambda n: ((5 + n) / 6) ** 0.7}


def options(**fields):
    return SearchConfig(**{"max_length_factor": 0.0, "max_length_extra": 4, "alpha": 0.7, **fields})


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_wide_beam_finds_what_enumeration_finds_in_its_order(penalty):
    torch.manual_seed(1)
    model = TableModel(6)
    # Two words and four positions make 15 translations.
    found = translate(model, [[4, 5], [5]], options(length_penalty=penalty, n_best=16), beam=16)
    for first, hypotheses in zip((4, 5), found, strict=True):
        scored = [
            (total / PENALTIES[penalty](len(tokens) + 1), tokens, total)
            for tokens, total in model.every_translation(first, [4, 5], 4)
        ]
        expected = sorted(scored, reverse=True)
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _, _ in expected], abs=1e-5)
        assert [h.log_prob for h in hypotheses] == pytest.approx([total for _, _, total in expected], abs=1e-5)


def test_stopping_with_the_wanted_translations_loses_none_without_a_length_penalty():
    torch.manual_seed(9)
    model = TableModel(6)
    for first in range(4, 24):
        early, late = (
            translate(model, [[first]], options(length_penalty="none", max_length_extra=8, n_best=n), beam=6)[0]
            for n in (2, 6)
        )
        assert early[:2] == late[:2]
        assert len(early) <= len(late)


def test_a_beam_of_one_takes_the_likeliest_token_each_time():
    torch.manual_seed(2)
    model = TableModel(40)
    for first in range(4, 12):
        ((found,),) = translate(model, [[first]], options(max_length_extra=12), beam=1)
        tokens: list[int] = []
        for step in range(12):
            scores = model.log_probs(first, tokens)
            scores[[PAD, UNK, BOS]] = -math.inf
            word = EOS if step == 11 else int(scores.argmax())
            if word == EOS:
                break
            tokens.append(word)
        assert found.tokens == tuple(tokens)


@pytest.mark.parametrize("allow_unknown", [False, True])
def test_padding_and_start_are_never_emitted_and_unknown_only_where_allowed(allow_unknown):
    torch.manual_seed(3)
    bias = torch.zeros(9)
    bias[[PAD, UNK, BOS]] = 50.0
    found = translate(TableModel(9, bias=bias), [[4], [5, 6]], options(allow_unknown=allow_unknown, n_best=4), beam=4)
    emitted = {token for hypotheses in found for h in hypotheses for token in h.tokens}
    assert not emitted & {PAD, BOS, EOS}
    assert (UNK in emitted) == allow_unknown


def test_a_model_that_only_ends_gives_empty_translations():
    bias = torch.zeros(9)
    bias[EOS] = 1000.0
    for beam in (1, 3):
        for hypotheses in translate(TableModel(9, bias=bias), [[4], [5, 6]], options(), beam):
            assert hypotheses[0].tokens == ()
            assert hypotheses[0].log_prob == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_never_ends_is_stopped_at_the_length_of_each_source(beam):
    bias = torch.zeros(9)
    bias[EOS] = -1000.0
    sources = [[4], [5, 6, 7], [8] * 5]
    found = translate(TableModel(9, bias=bias), sources, options(max_length_factor=2.0, max_length_extra=3), beam)
    for source, hypotheses in zip(sources, found, strict=True):
        # EOS is the last of the positions.
        assert [len(h.tokens) for h in hypotheses] == [2 * len(source) + 3 - 1] * beam


def test_no_line_is_so_long_that_its_translation_takes_thousands_of_steps():
    bias = torch.zeros(9)
    bias[EOS] = -1000.0
    searched = options(max_length_factor=2.0, max_length=7)
    found = translate(TableModel(9, bias=bias), [[4] * 6000, [5]], searched, beam=2)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [6, 5]


def test_a_blank_source_has_a_blank_translation_at_its_place():
    torch.manual_seed(4)
    model = TableModel(9)
    found = translate(model, [[4], [], [5, 6], []], options(), beam=2)
    assert [h.tokens for h in found[1] + found[3]] == [(), ()]
    assert found[0] == translate(model, [[4]], options(), beam=2)[0]
    assert translate(model, [[], []], options(), beam=2) == [found[1], found[3]]
    assert translate(model, [], options(), beam=2) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_broken_model_ends_the_search_too(value):
    model = TableModel(9, bias=torch.full((9,), value))
    for hypotheses in translate(model, [[4], [5, 6]], options(), beam=3):
        assert len(hypotheses) >= 1
        assert set(hypotheses[0].tokens).isdisjoint({PAD, BOS, EOS})


def test_a_vocabulary_smaller_than_the_beam_serves():
    torch.manual_seed(5)
    found = translate(TableModel(5), [[4]], options(n_best=8), beam=8)
    assert sorted(len(h.tokens) for h in found[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("norm", ["rmsnorm", "none"])
def test_neither_batch_nor_order_nor_padding_changes_a_translation(norm, beam):
    torch.manual_seed(6)
    cfg = Config(dim=16, ffn=24, heads=2, encoder_layers=2, decoder_layers=2)
    model = Transformer(NormFactory(norm_config(norm)), cfg, 30).eval()
    torch.nn.init.normal_(model.target_embedding.weight)
    sources = [torch.randint(4, 30, (n,)).tolist() for n in (1, 9, 3, 3, 14, 2, 7)]
    searched = SearchConfig(max_length_factor=1.0, max_length_extra=5)
    alone = [translate(model, [source], searched, beam)[0] for source in sources]
    order = [4, 0, 6, 2, 5, 1, 3]
    for width in (2, 128):
        searched.sentences = width
        together = translate(model, sources, searched, beam)
        reordered = translate(model, [sources[i] for i in order], searched, beam)
        for found in (together, [reordered[order.index(i)] for i in range(len(sources))]):
            assert [[h.tokens for h in hypotheses] for hypotheses in found] == [
                [h.tokens for h in hypotheses] for hypotheses in alone
            ]
            for ours, theirs in zip(found, alone, strict=True):
                assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


def test_a_source_of_thousands_of_subwords_is_translated():
    torch.manual_seed(8)
    cfg = Config(dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=1)
    model = Transformer(NormFactory(norm_config("rmsnorm")), cfg, 30).eval()
    searched = SearchConfig(max_length_factor=0.0, max_length_extra=5)
    long, short = translate(model, [[4] * 6000, [5]], searched, beam=2)
    assert long
    assert [h.tokens for h in short] == [h.tokens for h in translate(model, [[5]], searched, beam=2)[0]]
