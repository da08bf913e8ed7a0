"""The CPU kernels on tensors: layouts, allocation, and one foreign call per pass.

The small shapes of recurrent models are decided here rather than in the kernels, so this file counts microseconds:
a structure is built once per formula, and a call passes plain integers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels import reference
from rmsrepro.kernels.autograd import FusedNorm
from rmsrepro.kernels.cpu import library, node
from rmsrepro.kernels.cpu.structures import CNormSpec
from rmsrepro.kernels.layout import rows_of
from rmsrepro.kernels.spec import NormSpec

#: Types of rows, gain and bias that the kernels read without a conversion (DType in norm.h).
DTYPES = {torch.float32: 0, torch.bfloat16: 1}

_forward: Any = library.library and library.library.rr_norm_forward
_backward: Any = library.library and library.library.rr_norm_backward
_node: Any = node.norm


class CpuNorm:
    """One formula for rows of n >= 1 elements and one choice of types (gain and bias: None where there is none)."""

    def __init__(
        self, spec: NormSpec, n: int, row: torch.dtype, gain: torch.dtype | None, bias: torch.dtype | None
    ) -> None:
        self.spec, self.n, self.row, self.bias = spec, n, row, bias
        types = (DTYPES[row], DTYPES[gain or row], DTYPES[bias or row])
        self._struct = CNormSpec(n, spec.k, spec.eps, spec.gain_offset, spec.centre, spec.eps_outside, *types)
        self._address = ctypes.addressof(self._struct)
        self._stats = spec.stats
        self._id = id(self)

    def __call__(self, x: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise `x` [..., n], recording the gradient: in C++ where the node was built, else in Python."""
        if _node is not None and x.is_contiguous():
            return _node(x, gain, bias, self._address, self._id, self._stats)
        return FusedNorm.apply(x, gain, bias, self)

    def differentiable_backward(
        self, dy: Tensor, x: Tensor, gain: Tensor | None, *wanted: bool
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the wanted gradients by the formula in torch operations, for a second derivative."""
        return reference.backward(self.spec, dy, x, gain, wanted, self.bias)

    def forward(
        self, x: Tensor, gain: Tensor | None, bias: Tensor | None, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalise the rows of `x` [..., n], or of x + residual.

        Returns y [..., n], the normalised input [..., n] (`x` itself without a residual) and the row statistics that
        `backward` needs, [rows, 1 + centre] in float32.
        """
        n = self.n
        rows = x.numel() // n
        stat = torch.empty((rows, self._stats), dtype=torch.float32)
        added, added_address, residual_address, residual_stride = x, 0, 0, 0
        if x.is_contiguous():
            y, stride = torch.empty_like(x), n
        else:
            y = torch.empty(x.shape, dtype=self.row)
            x, stride = rows_of(x)
        if residual is not None:
            residual, residual_stride = rows_of(residual)
            added = torch.empty_like(y)
            added_address, residual_address = added.data_ptr(), residual.data_ptr()
        _forward(
            self._address,
            rows,
            x.data_ptr(),
            stride,
            residual_address,
            residual_stride,
            0 if gain is None else gain.data_ptr(),
            0 if bias is None else bias.data_ptr(),
            y.data_ptr(),
            added_address,
            stat.data_ptr(),
        )
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
        """Return the wanted gradients of (x, gain, bias) for the upstream gradient `dy` [..., n].

        `x` and `stat` are what `forward` returned; `dsum` [..., n] is a second gradient that reaches x past the norm.
        """
        n, row = self.n, self.row
        if dy.dtype != row:
            dy = dy.to(row)
        dx = None
        if x.is_contiguous():
            stride = n
            if want_x:
                dx = torch.empty_like(x)
        else:
            if want_x:
                dx = torch.empty(x.shape, dtype=row)
            x, stride = rows_of(x)
        dy_stride = n
        if not dy.is_contiguous():
            dy, dy_stride = rows_of(dy)
        dsum_address, dsum_stride = 0, 0
        if dsum is not None:
            dsum, dsum_stride = rows_of(dsum.to(row))
            dsum_address = dsum.data_ptr()
        dgain = torch.empty_like(gain) if want_gain and gain is not None else None
        dbias = torch.empty(n, dtype=self.bias) if want_bias else None
        _backward(
            self._address,
            stat.shape[0],
            dy.data_ptr(),
            dy_stride,
            dsum_address,
            dsum_stride,
            x.data_ptr(),
            stride,
            0 if gain is None else gain.data_ptr(),
            stat.data_ptr(),
            0 if dx is None else dx.data_ptr(),
            0 if dgain is None else dgain.data_ptr(),
            0 if dbias is None else dbias.data_ptr(),
        )
        return dx, dgain, dbias


def bound_forward(plan: CpuNorm, x: Tensor, gain: Tensor, y: Tensor, stat: Tensor) -> Callable[[], None]:
    """Return the bare forward kernel on contiguous tensors as a call without arguments, for timing it alone."""
    n, rows = plan.n, x.numel() // plan.n
    kept = (plan, x, gain, y, stat)  # the addresses below are theirs
    addresses = (x.data_ptr(), n, 0, 0, gain.data_ptr(), 0, y.data_ptr(), 0, stat.data_ptr())
    return lambda: _forward(kept[0]._address, rows, *addresses)


#: The plan of a formula, built at the first call and kept for good: nodes hold its address.
plan = cache(CpuNorm)
