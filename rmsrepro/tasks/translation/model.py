"""What a translation model offers to training and to search, whatever it is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from rmsrepro.data.parallel.batch import PairBatch

#: Nested tuples, lists and dicts of tensors whose first dimension is one row per hypothesis or sentence.
State = Any


class TranslationModel(nn.Module, ABC):
    """An encoder and a decoder that share the loss and the search.

    `features` serves training, all target positions at once; `encode` and `step` serve search, one position at a
    time, and give the same numbers. Nothing depends on how much padding a batch has.
    """

    @abstractmethod
    def features(self, batch: PairBatch) -> Tensor:
        """Return what the softmax layer reads at every position of `batch.target_mask`, row by row: [N, D]."""

    @abstractmethod
    def output(self) -> tuple[Tensor, Tensor]:
        """Return the softmax layer's weight [V, D] and bias [V]."""

    @abstractmethod
    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[State, State]:
        """Return what a sentence keeps throughout search, and the decoder's state before its first token.

        source [B, S], source_lengths [B]; both results have B rows. The first is only ever reordered when sentences
        finish, the second after each token.
        """

    @abstractmethod
    def step(self, tokens: Tensor, memory: State, state: State) -> tuple[Tensor, State]:
        """Return the features [N, D] after `tokens` [N], and the state that includes them.

        Memory and state have N rows: the beams of one sentence side by side.
        """
