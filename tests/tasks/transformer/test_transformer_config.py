"""The paper's sizes are what the paper says; what cannot be meant is refused with the way out."""

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.errors import ConfigError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.norms.modules import RowNorm
from rmsrepro.tasks.transformer.task import Task


def config(*overrides):
    return compose_config(["task=transformer", "track=none", *overrides])


def test_the_papers_size_is_the_base_model_with_30_norms():
    cfg = config("size=paper", "norm=rmsnorm", "norm.p=0.0625")
    task = cfg.task
    assert (task.dim, task.ffn, task.heads, task.vocabulary, task.batch_tokens) == (512, 2048, 8, 32000, 25000)
    assert (cfg.train.beta1, cfg.train.beta2, cfg.train.adam_eps) == (0.9, 0.98, 1e-9)
    assert (cfg.train.schedule, cfg.train.warmup_steps, cfg.train.clip_norm) == ("inverse_sqrt", 4000, 5.0)
    made = Task(cfg, torch.device("cpu"))
    made.vocabulary_size = 100
    model = made.build_model(NormFactory(cfg.norm, cfg.impl))
    assert sum(isinstance(module, RowNorm) for module in model.modules()) == 30
    # Norms in front end either stack with one more.
    cfg.task.placement = "pre"
    model = made.build_model(NormFactory(cfg.norm, cfg.impl))
    assert sum(isinstance(module, RowNorm) for module in model.modules()) == 32


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["task.heads=3"], "task.dim=128: allowed are even multiples of task.heads=3"),
        (["task.batch_tokens=70"], "task.batch_tokens=70: one sentence may have task.max_length=80"),
        (["task.search.n_best=6"], "task.search.n_best=6: at most task.search.beam=5"),
        (["task.search.length_penalty=wu"], "task.search.length_penalty=wu: allowed are none, length, gnmt"),
        (["task.search.beam=0"], "task.search.beam=0: allowed is 1 or more"),
        (["task.search.alpha=300"], "task.search.alpha=300.0: allowed is 0 to 10"),
        (["task.search.alpha=nan"], "task.search.alpha=nan: allowed is 0 to 10"),
        (["task.search.max_length_factor=1e308"], "task.search.max_length_factor=1e.308: allowed is 0 to 1000"),
        (["task.label_smoothing=1"], "task.label_smoothing=1.0: allowed is 0 <= label_smoothing < 1"),
        (["task.smoothing=some"], "task.smoothing=some: allowed are all, others"),
        (["task.target=en"], "task.target=en: is the source language too"),
        (["task.placement=middle"], "task.placement=middle: allowed are post, pre"),
        (["data=cifar10"], "data=cifar10: allowed are libreoffice_help, multi30k"),
        (["task.dropout=1.0"], "task.dropout=1.0: allowed is 0 <= dropout < 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(overrides, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        config(*overrides)


@pytest.mark.parametrize(("shared", "matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_embeddings_are_shared_as_asked(shared, matrices):
    cfg = config("size=tiny", f"task.share_embeddings={shared}")
    made = Task(cfg, torch.device("cpu"))
    made.vocabulary_size = 77
    model = made.build_model(NormFactory(cfg.norm, cfg.impl))
    assert sum(p.shape == (77, 32) for p in model.parameters()) == matrices
