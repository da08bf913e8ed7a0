"""A gated recurrent unit with norms inside the time loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rmsrepro.layers.fused import fused_run
from rmsrepro.layers.generic import Cell, State, gru_loop
from rmsrepro.layers.options import GRUOptions, gru_options
from rmsrepro.layers.recurrent import NormRecurrent
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.factory import NormFactory


class NormGRU(NormRecurrent[GRUOptions]):
    """nn.GRU with normalised projections: the two gates of each projection together, and its candidate.

    r, z = sigmoid(norm(W x) + norm(U h) + b);  n = tanh(norm(W_n x) + b_n + r norm(U_n h));  h' = (1 - z) n + z h

    The first arguments are nn.GRU's. `norm` is a factory, a configuration, or a name with the norm's fields
    (`eps=`, `p=`, ...) and `impl=` beside it; `cell` is a GRUOptions, its fields, or a preset's name.
    Source: paper sections 2.1 and 2.4 (Nematus, order-embedding).
    """

    gates, groups, states, torch_layer = 3, (("_gates", 0, 2), ("_candidate", 2, 3)), 1, nn.GRU

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
        cell: GRUOptions | str | Mapping[str, object] | None = None,
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
            options=gru_options(cell),
            norm_fields=norm_fields,
            device=device,
            dtype=dtype,
        )

    def _run(self, x: Tensor, state: State, cell: Cell, mask: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        if self._is_fused(x, state, cell):
            return fused_run(x, state, cell, mask, reverse)
        return gru_loop(x, state, cell, self.options, mask, reverse)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Any, Tensor]:
        """Run over `input` [T, B, in], [B, T, in] with batch_first, [T, in], or packed; return (output, h).

        `hx` is [layers * directions, B, H]. `lengths` [B] or `mask` [T, B] (nonzero where a step counts; [B, T] with
        batch_first) says what is padding: there the state is carried, and the output repeats it.
        """
        output, (h,) = self._forward(input, None if hx is None else (hx,), lengths, mask)
        return output, h
