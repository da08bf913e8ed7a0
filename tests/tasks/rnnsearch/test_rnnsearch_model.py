"""RNNSearch: its norm sites, and training and search that compute the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from rmsrepro.norms.modules import RowNorm

NORMS = ("none", "layernorm", "rmsnorm", "prmsnorm", "l2norm", "batchnorm", "weightnorm")
CODEBASES = ("nematus_tensorflow", "nematus_theano", "pytorch")


def loss(model, batch):
    return F.cross_entropy(F.linear(model.features(batch), *model.output()), batch.target_out[batch.target_mask])


def test_there_are_22_norm_sites_as_in_the_paper(build_model):
    sites = [name for name, module in build_model("norm=layernorm").named_modules() if isinstance(module, RowNorm)]
    parts = ("encoder.", "first_state.", "decoder.first.", "decoder.second.", "decoder.attention.", "deep_output.")
    assert [sum(name.startswith(part) for name in sites) for part in parts] == [8, 1, 4, 4, 2, 3]


def test_the_sizes_of_the_paper_give_its_parameters(build_model):
    """Without embeddings and softmax, Nematus's layers of 512 and 1024 hold 33.6 million numbers and their biases."""
    model = build_model("norm=none", "task.embedding=512", "task.hidden=1024")
    gru, embedding, hidden, context = 3 * 1024, 512, 1024, 2048
    encoder = 2 * (gru * (embedding + hidden) + gru)
    decoder = gru * (embedding + hidden) + gru + gru * (context + hidden) + gru
    attention = context * context + context + context * hidden + context
    output = embedding * (embedding + hidden + context) + 3 * embedding
    words = 40 * (3 * embedding + 1)
    expected = encoder + hidden * context + hidden + decoder + attention + output + words
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("codebase", CODEBASES)
@pytest.mark.parametrize("norm", NORMS)
def test_search_computes_what_training_does_and_everything_learns(build_model, made_up, norm, codebase):
    model = build_model(f"norm={norm}", f"task.codebase={codebase}")
    loss(model, made_up).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    with torch.no_grad():
        expected = model.features(made_up)
        memory, state = model.encode(made_up.source, made_up.source_lengths)
        steps = []
        for t in range(made_up.target_in.shape[1]):
            features, state = model.step(made_up.target_in[:, t], memory, state)
            steps.append(features)
    torch.testing.assert_close(torch.stack(steps, 1)[made_up.target_mask], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", ["none", "rmsnorm", "batchnorm"])
def test_padding_and_company_change_nothing(build_model, made_up, norm):
    model = build_model(f"norm={norm}").eval()
    with torch.no_grad():
        expected = model.features(made_up).split(made_up.target_lengths.tolist())
        for i, alone in enumerate(expected):
            s, t = made_up.source_lengths[i], made_up.target_lengths[i]
            parts = {"source": s, "target_in": t, "target_out": t}
            single = {name: getattr(made_up, name)[i : i + 1, :length] for name, length in parts.items()}
            lengths = {name: getattr(made_up, name)[i : i + 1] for name in ("source_lengths", "target_lengths")}
            torch.testing.assert_close(model.features(replace(made_up, **single, **lengths)), alone)


@pytest.mark.parametrize("norm", ["none", "layernorm", "rmsnorm", "prmsnorm"])
def test_fused_and_composed_learn_alike(build_model, made_up, norm):
    grads = []
    for impl in ("auto", "composed"):
        model = build_model(f"norm={norm}", f"impl={impl}")
        grads.append(torch.autograd.grad(loss(model, made_up), list(model.parameters())))
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * b.abs().max().item() + 1e-7)


def test_half_precision_trains(build_model, made_up):
    model = build_model("norm=rmsnorm")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(model, made_up)
    value.backward()
    torch.testing.assert_close(value, loss(model, made_up), rtol=1e-2, atol=1e-2)
