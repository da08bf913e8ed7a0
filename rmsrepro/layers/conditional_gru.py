"""Nematus's conditional GRU: two transitions a step with attention between them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from rmsrepro.errors import ConfigError
from rmsrepro.layers.additive_attention import AdditiveAttention, Memory
from rmsrepro.layers.conditional_cell import ConditionalCell, conditional_loop
from rmsrepro.layers.conditional_fused import (
    ConditionalPanels,
    fused_conditional,
    pack_conditional,
    why_not_fused_conditional,
)
from rmsrepro.layers.gru import NormGRU
from rmsrepro.layers.options import GRUOptions
from rmsrepro.norms.factory import NormFactory


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

    @torch.no_grad()
    def packed(self, h: Tensor, memory: Memory) -> ConditionalPanels | None:
        """Return the weights packed for many calls of `forward` in a search, or None where no kernel runs from `h`."""
        cell = self.cell()
        x = h.new_empty(1, len(h), self.first.input_size)
        return pack_conditional(cell) if self._is_fused(x, h, cell, memory) else None

    def forward(
        self,
        x: Tensor,
        h: Tensor,
        memory: Memory,
        mask: Tensor | None = None,
        first_step: int = 0,
        panels: ConditionalPanels | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Run over `x` [T, B, in] from `h` [B, H]; return the states [T, B, H] and the contexts [T, B, C].

        `mask` [T, B] is true where a step counts; elsewhere the state is carried and the context is zero. The memory
        has B rows, or one for as many sequences side by side. Steps are numbered from `first_step` on, for norms that
        differ from step to step. `panels`, from `packed` since the weights last changed, save time without gradients.
        """
        beam = self._sequences_per_memory(x, h, memory)
        cell = self.cell()
        fused = self._is_fused(x, h, cell, memory)
        if not fused or torch.is_grad_enabled():
            memory = memory.repeated(beam)
        if fused:
            return fused_conditional(x, h, cell, memory, mask, None if torch.is_grad_enabled() else panels)
        return conditional_loop(x, h, cell, memory, mask, first_step)

    def _sequences_per_memory(self, x: Tensor, h: Tensor, memory: Memory) -> int:
        """Check all shapes, as the kernels read plain addresses."""
        rows, positions = memory.context.shape[:2]
        count = len(h)
        expected = {
            "x": (x.shape, (len(x), count, self.first.input_size)),
            "h": (h.shape, (count, self.first.hidden_size)),
            "memory.keys": (memory.keys.shape, (rows, positions, len(self.attention.score))),
            "memory.context": (memory.context.shape, (rows, positions, self.second.input_size)),
            "memory.lengths": (memory.lengths.shape, (rows,)),
        }
        for name, (given, wanted) in expected.items():
            if given != wanted:
                raise ValueError(f"{name} is {list(given)}, expected {list(wanted)}")
        if not len(x) or count % max(rows, 1) or (count and not rows):
            raise ValueError(f"{len(x)} steps of {count} sequences cannot share {rows} memories")
        return count // rows if rows else 1

    def _is_fused(self, x: Tensor, h: Tensor, cell: ConditionalCell, memory: Memory) -> bool:
        """Say whether the kernels run this input; raises ConfigError where `impl=fused` asks for what they cannot."""
        if self.norm.impl in ("composed", "torch"):
            return False
        reason = why_not_fused_conditional(x, h, cell, memory)
        if reason is not None and self.norm.impl == "fused":
            raise ConfigError(f"impl=fused: {reason}; use impl=auto, torch or composed")
        return reason is None
