"""A small RNNSearch and batches of made-up pairs, without any data."""

from collections.abc import Callable

import pytest
import torch

from rmsrepro.compose import compose_config
from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.rnnsearch.config import Config
from rmsrepro.tasks.rnnsearch.model import RNNSearch

VOCABULARY = 40


@pytest.fixture
def build_model() -> Callable[..., RNNSearch]:
    """Return a function that builds the model with some overrides."""

    def build(*overrides: str) -> RNNSearch:
        cfg = compose_config(["task=rnnsearch", "task.embedding=12", "task.hidden=16", "task.dropout=0", *overrides])
        assert isinstance(cfg.task, Config)
        torch.manual_seed(cfg.seed)
        return RNNSearch(NormFactory(cfg.norm, cfg.impl), cfg.task, VOCABULARY)

    return build


@pytest.fixture
def made_up() -> PairBatch:
    """Return five pairs of up to seven source and six target tokens."""
    torch.manual_seed(0)
    source_lengths, target_lengths = torch.tensor([7, 3, 1, 7, 5]), torch.tensor([2, 6, 1, 5, 6])
    source, target_in, target_out = (torch.randint(4, VOCABULARY, (5, n)) for n in (7, 6, 6))
    return PairBatch(source, source_lengths, target_in, target_out, target_lengths)
