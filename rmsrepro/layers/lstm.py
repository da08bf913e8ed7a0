"""A long short-term memory with norms inside the time loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rmsrepro.layers.fused import fused_run
from rmsrepro.layers.generic import Cell, State, lstm_loop
from rmsrepro.layers.options import LSTMOptions, lstm_options
from rmsrepro.layers.projection import SiteNorm
from rmsrepro.layers.recurrent import NormRecurrent
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.factory import NormFactory


class NormLSTM(NormRecurrent[LSTMOptions]):
    """nn.LSTM with normalised projections and cell state.

    a = norm(W x) + norm(U h) + b;  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(norm(c'))

    The first arguments are nn.LSTM's. `norm` is a factory, a configuration, or a name with the norm's fields
    (`eps=`, `p=`, ...) and `impl=` beside it; `cell` is an LSTMOptions, its fields, or a preset's name.
    Source: paper section 2.3; Ba, Kiros & Hinton 2016, supplement.
    """

    gates, groups, states, torch_layer = 4, (("", 0, 4),), 2, nn.LSTM

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        norm: NormFactory | NormConfig | str = "rmsnorm",
        impl: str | None = None,
        cell: LSTMOptions | str | Mapping[str, object] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **norm_fields: Any,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            norm=norm,
            impl=impl,
            options=lstm_options(cell),
            norm_fields=norm_fields,
            device=device,
            dtype=dtype,
        )

    def _register(self, suffix: str, width: int) -> None:
        super()._register(suffix, width)
        if self.options.norm_cell and "features" in self.norm.family.sites:
            self._add_norm(f"norm_c{suffix}", self.hidden_size, self.norm.cfg.shift)

    def cell(self, suffix: str = "_l0") -> Cell:
        """Return one layer in one direction as the time loops read it, with the norm of its cell state."""
        cell = super().cell(suffix)
        norm = getattr(self, f"norm_c{suffix}", None)
        cell.cell_norm = None if norm is None else SiteNorm(0, self.hidden_size, norm)
        return cell

    def _run(self, x: Tensor, state: State, cell: Cell, mask: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        if self._is_fused(x, state, cell):
            again = cell.input.inner_bias if self.options.repeat_bias else None
            return fused_run(x, state, cell, mask, reverse, again)
        return lstm_loop(x, state, cell, self.options, mask, reverse)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: tuple[Tensor, Tensor] | None = None,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Run over `input` [T, B, in], [B, T, in] with batch_first, [T, in], or packed; return (output, (h, c)).

        `hx` is (h0, c0), each [layers * directions, B, H]. `lengths` [B] or `mask` [T, B] (nonzero where a step
        counts; [B, T] with batch_first) says what is padding: there the state is carried, and the output repeats it.
        """
        output, (h, c) = self._forward(input, hx, lengths, mask)
        return output, (h, c)
