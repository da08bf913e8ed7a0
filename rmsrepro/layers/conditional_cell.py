"""The conditional GRU, one torch operation after another: it serves every norm; the reference for the fast path."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rmsrepro.layers.additive_attention import Memory, attend
from rmsrepro.layers.generic import Cell, State, gru_step, time_loop
from rmsrepro.layers.options import GRUOptions
from rmsrepro.layers.projection import Projection


@dataclass
class ConditionalCell:
    """The parts of a conditional GRU as the time loops read them."""

    first: Cell
    query: Projection
    score: Tensor
    """[A]"""
    second: Cell
    first_options: GRUOptions
    second_options: GRUOptions

    @property
    def by_step(self) -> bool:
        """Whether the norms differ from step to step, so that a step must know its number."""
        parts = (self.first.input, self.first.hidden, self.query, self.second.input, self.second.hidden)
        return any(part.by_step for part in parts)


def conditional_loop(
    x: Tensor, h: Tensor, cell: ConditionalCell, memory: Memory, mask: Tensor | None, first_step: int = 0
) -> tuple[Tensor, Tensor]:
    """Run a conditional GRU, one torch operation after another; as ConditionalGRU.forward."""
    positions = memory.mask
    contexts: list[Tensor] = []

    def step(a: Tensor, state: State, t: int, rows: Tensor | None) -> State:
        between = gru_step(a, state[0], cell.first, cell.first_options, t, rows)
        context = attend(between, cell.query, cell.score, memory, positions, t, rows)
        contexts.append(context)
        projected = cell.second.input.finish(cell.second.input.linear(context), t, rows)
        return (gru_step(projected, between, cell.second, cell.second_options, t, rows),)

    states, _ = time_loop(x, (h,), cell.first.input, cell.first_options.hoist_input, mask, False, step, first_step)
    attended = torch.stack(contexts)
    if mask is not None:
        attended = attended.masked_fill(~mask.unsqueeze(-1), 0.0)
    return states, attended
