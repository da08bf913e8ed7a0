"""Nematus's conditional GRU: two transitions a step with attention between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rmsrepro.layers.additive_attention import AdditiveAttention, Memory, attend
from rmsrepro.layers.generic import Cell, State, gru_step, time_loop
from rmsrepro.layers.gru import NormGRU
from rmsrepro.layers.options import GRUOptions
from rmsrepro.layers.projection import Projection
from rmsrepro.norms.factory import NormFactory


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


class ConditionalGRU(nn.Module):
    """h1 = GRU(x, h); c = attention(h1); h' = GRU(c, h1).

    `first` and `second` are the two cells' options; by default the bias belongs to the first cell's input and to the
    second cell's state. Source: paper section 2.1; Nematus.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int,
        attention_size: int,
        *,
        norm: NormFactory,
        first: GRUOptions | str | Mapping[str, object] = "nematus",
        second: GRUOptions | str | Mapping[str, object] = "nematus_context",
    ) -> None:
        super().__init__()
        self.norm = norm
        self.first = NormGRU(input_size, hidden_size, norm=norm, cell=first)
        self.attention = AdditiveAttention(context_size, hidden_size, attention_size, norm=norm)
        self.second = NormGRU(context_size, hidden_size, norm=norm, cell=second)

    def cell(self) -> ConditionalCell:
        """Return the parts as the time loops read them, their parameters as they are now."""
        return ConditionalCell(
            self.first.cell(),
            self.attention.query.projection(),
            self.attention.score,
            self.second.cell(),
            self.first.options,
            self.second.options,
        )

    def forward(
        self, x: Tensor, h: Tensor, memory: Memory, mask: Tensor | None = None, first_step: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Run over `x` [T, B, in] from `h` [B, H]; return the states [T, B, H] and the contexts [T, B, C].

        `mask` [T, B] is true where a step counts; elsewhere the state is carried and the context is zero. Steps are
        numbered from `first_step` on, for norms that differ from step to step.
        """
        return conditional_loop(x, h, self.cell(), memory, mask, first_step)


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
