"""What a translation model offers to training and to search, whatever it is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.layers.linear_cross_entropy import Workspace
from rmsrepro.tasks.translation.loss import Objective

#: Nested tuples, lists and dicts of tensors whose first dimension is one row per hypothesis or sentence. Anything else
#: in them, such as packed weights or None, belongs to all rows and is handed on as it is.
State = Any


class TranslationModel(nn.Module, ABC):
    """An encoder and a decoder that share the loss and the search.

    `features` serves training, all target positions at once; `encode` and `step` serve search, one position at a
    time, and give the same numbers. Nothing depends on how much padding a batch has.
    """

    def __init__(self) -> None:
        super().__init__()
        self._workspace = Workspace()

    def forward(self, batch: PairBatch, objective: Objective) -> Tensor:
        """Return the loss of a batch, summed over what `objective` counts."""
        weight, bias = self.output()
        return objective.loss_sum(self.features(batch), weight, bias, batch, self._workspace)

    @abstractmethod
    def features(self, batch: PairBatch) -> Tensor:
        """Return what the softmax layer reads at every position of `batch.target_mask`, row by row: [N, D]."""

    @abstractmethod
    def output(self) -> tuple[Tensor, Tensor | None]:
        """Return the softmax layer's weight [V, D] and bias [V], None where it has none."""

    @abstractmethod
    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[State, State]:
        """Return what a sentence keeps throughout search, and the decoder's state before its first token.

        source [B, S], source_lengths [B]; both results have B rows, as no sentence has several hypotheses yet. The
        first loses rows when sentences finish, the second is reordered after each token.
        """

    @abstractmethod
    def step(self, tokens: Tensor, memory: State, state: State) -> tuple[Tensor, State]:
        """Return the features [N, D] after `tokens` [N], and the state that includes them.

        The state has N rows: the hypotheses of one sentence side by side, as many for each sentence. The memory has
        one row per sentence.
        """
