"""What a recurrent layer is asked to do, in the words that its CPU and CUDA kernels share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from rmsrepro.kernels.spec import NormSpec


class RecurrentSpec(NamedTuple):
    """One cell; hashable, so that kernels can keep what they derive from it.

    LSTM: gates i f g o, one group of all four. GRU: gates r z n, the groups (r, z) and (n), reset behind the
    projection. A norm that is None leaves its columns alone.
    """

    gates: int
    """4 for an LSTM, 3 for a GRU."""
    input: tuple[NormSpec | None, ...]
    """The norm of each group of W x."""
    hidden: tuple[NormSpec | None, ...]
    """The norm of each group of U h."""
    cell: NormSpec | None = None
    """The norm of an LSTM's cell state on its way to the output."""

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """First and last gate of every group that is normalised together."""
        return ((0, 4),) if self.gates == 4 else ((0, 2), (2, 3))


@dataclass
class RecurrentTensors:
    """What one layer computes with; n = gates * H, all float32 and contiguous."""

    x: Tensor
    """[T, B, in]"""
    input_weight: Tensor
    """[n, in], W."""
    input_bias: Tensor | None
    """[n], added to W x before its norm."""
    weight: Tensor
    """[n, H], U."""
    h0: Tensor
    """[B, H]"""
    c0: Tensor | None
    """[B, H], LSTM."""
    bias: Tensor | None
    """[n], added after the norms; a GRU adds its candidate's outside the reset gate."""
    candidate_bias: Tensor | None
    """[H], GRU: added to the candidate's U h after its norm."""
    hidden_bias: Tensor | None
    """[n], added to U h before its norm."""
    input_gain: Tensor | None
    """[n]"""
    hidden_gain: Tensor | None
    """[n]"""
    cell_gain: Tensor | None
    """[H], LSTM."""
    cell_shift: Tensor | None
    """[H], LSTM."""
    mask: Tensor | None
    """[T, B], bool; false where the state is carried."""
    reverse: bool


@dataclass
class RecurrentSaved:
    """What the backward pass needs beside the tensors themselves."""

    input: Tensor
    """[T, B, n], W x."""
    h: Tensor
    """[T + 1, B, H]: the initial state before the steps, or behind them when reversed."""
    c: Tensor | None
    """Like h, LSTM."""
    hidden: Tensor
    """[T, B, n], U h; empty where its norm is None and nothing else needs it."""
    gates: Tensor
    """[T, B, n], after their activations."""
    stats: tuple[Tensor, ...]
    """Mean and scale of every normalised row: input, hidden, cell."""


@dataclass
class RecurrentGrads:
    """Gradients of the tensors of the same names, in the order of RecurrentTensors."""

    x: Tensor | None
    """None where nobody asked for it."""
    input_weight: Tensor
    input_bias: Tensor | None
    weight: Tensor
    h0: Tensor
    c0: Tensor | None
    bias: Tensor
    candidate_bias: Tensor
    hidden_bias: Tensor | None
    input_gain: Tensor
    hidden_gain: Tensor
    cell_gain: Tensor
    cell_shift: Tensor
