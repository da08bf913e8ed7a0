"""The Triton kernels on tensors: which kernel serves a row length, and what it is launched with."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels.autograd import FusedNorm
from rmsrepro.kernels.layout import rows_of
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.kernels.triton import backward, forward
from rmsrepro.kernels.triton import heuristics as h

# What triton.jit returns is launched with options that the functions' signatures do not show.
_forward: Any = forward
_backward: Any = backward

#: Types of rows, gain and bias that the kernels read.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class TritonNorm:
    """One formula for rows of n >= 1 elements and one choice of types; the same calls as cpu.norms.CpuNorm."""

    def __init__(
        self, spec: NormSpec, n: int, row: torch.dtype, gain: torch.dtype | None, bias: torch.dtype | None
    ) -> None:
        self.spec, self.n, self.row, self.bias = spec, n, row, bias
        self._flags = {"CENTRE": spec.centre, "EPS_OUTSIDE": spec.eps_outside, "HAS_GAIN": gain is not None}
        self._numbers = (n, spec.k, spec.eps, spec.gain_offset)
        self._partial = spec.k < n

    def __call__(self, x: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise `x` [..., n], recording the gradient."""
        return FusedNorm.apply(x, gain, bias, self)

    def forward(
        self, x: Tensor, gain: Tensor | None, bias: Tensor | None, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise the rows of `x` [..., n], or of x + residual; returns y, the normalised input and statistics."""
        n = self.n
        y = torch.empty(x.shape, dtype=self.row, device=x.device)
        rows = x.numel() // n
        stat = torch.empty((rows, self.spec.stats), dtype=torch.float32, device=x.device)
        added, residual_stride = x, 0
        x, x_stride = rows_of(x)
        if residual is not None:
            residual, residual_stride = rows_of(residual)
            added = torch.empty_like(y)
        if rows == 0:
            return y, added, stat
        flags = {
            **self._flags,
            "PARTIAL": self._partial,
            "HAS_RESIDUAL": residual is not None,
            "HAS_BIAS": bias is not None,
        }
        tensors = (x, residual, gain, bias, y, None if residual is None else added, stat)
        numbers = (rows, x_stride, residual_stride, *self._numbers)
        with _on(x):
            if n <= h.FORWARD_ROW_LIMIT:
                tile = h.forward_tile(n)
                grid = (-(-rows // tile.rows),)
                _forward.forward_rows[grid](
                    *tensors, *numbers, **flags, ROWS=tile.rows, BLOCK=tile.block, num_warps=tile.warps
                )
            else:
                _forward.forward_stream[(rows,)](*tensors, *numbers, **flags, BLOCK=h.STREAM_BLOCK, num_warps=8)
        return y, added, stat

    def backward(
        self,
        dy: Tensor,
        x: Tensor,
        gain: Tensor | None,
        stat: Tensor,
        want_x: bool,
        want_gain: bool,
        want_bias: bool,
        dsum: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the wanted gradients of (x, gain, bias) for the upstream gradient `dy` [..., n]."""
        n, rows = self.n, stat.shape[0]
        want_gain = want_gain and gain is not None
        dx = torch.empty(x.shape, dtype=self.row, device=x.device) if want_x else None
        dgain = torch.zeros_like(gain) if want_gain and gain is not None else None
        dbias = torch.zeros(n, dtype=self.bias, device=x.device) if want_bias else None
        if rows == 0:
            return dx, dgain, dbias
        x, x_stride = rows_of(x)
        dy, dy_stride = rows_of(dy)
        dsum_stride = 0
        if dsum is not None:
            dsum, dsum_stride = rows_of(dsum)
        wants = {"WANT_GAIN": want_gain, "WANT_BIAS": want_bias}
        flags = {**self._flags, "HAS_DSUM": dsum is not None}
        with _on(x):
            if n <= h.BACKWARD_ROW_LIMIT:
                tile = h.backward_tile(n)
                programs = h.backward_programs(n, rows, _multiprocessors(x.device))
                partials = _partials(programs, n, want_gain, want_bias, x.device)
                _backward.backward_rows[(programs,)](
                    *(dy, dsum, x, gain, stat, dx, *partials),
                    *(rows, dy_stride, dsum_stride, x_stride, *self._numbers),
                    **flags,
                    **wants,
                    PARTIAL=self._partial,
                    WANT_X=want_x,
                    ROWS=tile.rows,
                    BLOCK=tile.block,
                    num_warps=tile.warps,
                )
            else:
                if want_x:
                    _backward.backward_stream[(rows,)](
                        *(dy, dsum, x, gain, stat, dx, dy_stride, dsum_stride, x_stride, *self._numbers),
                        **flags,
                        BLOCK=h.STREAM_BLOCK,
                        num_warps=8,
                    )
                chunk = max(h.COLUMN_ROWS, -(-rows // h.COLUMN_CHUNKS))
                chunks = -(-rows // chunk)
                partials = _partials(chunks, n, want_gain, want_bias, x.device)
                if want_gain or want_bias:
                    _backward.backward_columns[(-(-n // h.COLUMN_TILE), chunks)](
                        *(dy, x, stat, *partials, rows, chunk, dy_stride, x_stride, n),
                        **wants,
                        CENTRE=self.spec.centre,
                        ROWS=h.COLUMN_ROWS,
                        BLOCK=h.COLUMN_TILE,
                        num_warps=4,
                    )
            for partial, result in zip(partials, (dgain, dbias), strict=True):
                if partial is not None and result is not None:
                    grid = (-(-n // h.FINISH_COLUMNS),)
                    _backward.finish[grid](
                        partial, result, partial.shape[0], n, ROWS=h.FINISH_ROWS, BLOCK=h.FINISH_COLUMNS, num_warps=4
                    )
        return dx, dgain, dbias


#: The plan of a formula, built at the first call and kept.
plan = cache(TritonNorm)


def _partials(
    count: int, n: int, want_gain: bool, want_bias: bool, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    def one() -> Tensor:
        return torch.empty((count, n), dtype=torch.float32, device=device)

    return one() if want_gain else None, one() if want_bias else None


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def _on(x: Tensor) -> AbstractContextManager[object]:
    """Launch on the tensor's own device; Triton's interpreter runs on the CPU's."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
