"""How RNNSearch starts, what its settings refuse, and what is measured inside its decoder."""

from __future__ import annotations

import math

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.errors import ConfigError
from rmsrepro.tasks.rnnsearch.hidden_statistics import hidden_statistics


def test_square_matrices_are_orthogonal_and_the_others_small_and_normal(build_model):
    model = build_model("norm=none", "task.embedding=48", "task.hidden=64")
    for gate in model.decoder.first.weight_hh_l0.chunk(3):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(64), rtol=0, atol=1e-5)
    normal = model.decoder.second.weight_ih_l0  # 64 x 128 a gate
    assert abs(normal.mean().item()) < 3e-4
    assert normal.std().item() == pytest.approx(0.01, rel=0.03)
    assert not any(p.any() for name, p in model.named_parameters() if "bias" in name)


@pytest.mark.parametrize("norm", ["none", "weightnorm"])
def test_init_mean_moves_the_normal_draws(build_model, norm):
    model = build_model(f"norm={norm}", "task.init_mean=0.2", "task.embedding=48", "task.hidden=64")
    assert model.target_embedding.mean().item() == pytest.approx(0.2, abs=1e-3)
    linear = model.deep_output.state
    weight = linear.effective_weight() if norm == "weightnorm" else linear.weight
    assert weight.mean().item() == pytest.approx(0.2, abs=1e-3)


def test_theano_s_weightnorm_starts_from_rows_of_length_one(build_model):
    model = build_model("norm=weightnorm", "task.codebase=nematus_theano")
    lengths = model.deep_output.context.effective_weight().norm(dim=1)
    assert (lengths > 0.9).all()  # eps is of the size of the drawn rows
    assert (lengths <= 1.0).all()


@pytest.mark.parametrize(
    ("codebase", "preset", "smoothing"),
    [
        ("nematus_tensorflow", "nematus_tensorflow", 0.1),
        ("nematus_theano", "nematus_theano", 0.0),
        ("pytorch", "paper_torch", 0.1),
    ],
)
def test_a_code_base_brings_its_norm_and_its_loss(codebase, preset, smoothing):
    cfg = compose_config(["task=rnnsearch", f"task.codebase={codebase}"])
    assert (cfg.norm.preset, cfg.task.label_smoothing) == (preset, smoothing)


def test_the_paper_s_size_is_the_paper_s():
    cfg = compose_config(["task=rnnsearch", "size=paper"])
    assert (cfg.task.embedding, cfg.task.hidden, cfg.task.vocabulary, cfg.task.dropout) == (512, 1024, 32000, 0.0)
    assert cfg.task.output_bias_init == "zero"
    assert (cfg.train.batch_size, cfg.train.lr, cfg.train.clip_norm) == (80, 1e-4, 1.0)


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("task.codebase=tf", "allowed are nematus_tensorflow, nematus_theano, pytorch"),
        ("task.hidden=0", "allowed is 1 or more"),
        ("task.dropout=1", "allowed is 0 <= dropout < 1"),
        ("task.output_bias_init=ones", "allowed are zero, unigram"),
        ("task.hidden_statistics=reset", "allowed are none, all, gates, candidate"),
        ("task.init_mean=nan", "allowed is a finite number"),
    ],
)
def test_a_bad_setting_is_refused_by_name(setting, allowed):
    with pytest.raises(ConfigError, match=f"{setting.split('=')[0]}=.*{allowed}"):
        compose_config(["task=rnnsearch", setting])


@pytest.mark.parametrize("part", ["all", "gates", "candidate"])
@pytest.mark.parametrize("norm", ["none", "layernorm", "batchnorm"])
def test_hidden_statistics_are_those_of_every_state_s_mapping(build_model, made_up, norm, part):
    model = build_model(f"norm={norm}").eval()
    found = hidden_statistics(model, [made_up, made_up], part)
    hidden, mask = model.decoder.cell().first.hidden, made_up.target_mask.t()
    columns = {"all": slice(48), "gates": slice(32), "candidate": slice(32, 48)}[part]
    with torch.no_grad():
        states = model.states_before(made_up)
        mapped = torch.stack([hidden.finish(hidden.linear(h), t) for t, h in enumerate(states)])[..., columns]
    for name, values in [*((str(t + 1), mapped[t][mask[t]]) for t in range(4)), ("all", mapped[mask])]:
        assert found[f"hidden/mean_{name}"] == pytest.approx(values.mean().item(), abs=1e-5)
        assert found[f"hidden/std_{name}"] == pytest.approx(values.std(correction=0).item(), rel=1e-3)
    assert len(found) == 10
    assert all(map(math.isfinite, found.values()))


@pytest.mark.parametrize("impl", ["auto", "fused", "composed"])
def test_half_precision_does_not_change_what_is_measured_in_the_decoder(build_model, made_up, impl):
    model = build_model("norm=rmsnorm", f"impl={impl}").eval()
    found = hidden_statistics(model, [made_up], "all")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert hidden_statistics(model, [made_up], "all") == found
