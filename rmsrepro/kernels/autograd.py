"""The fused norms in eager autograd: straight from the Function to the kernel, past the operator registry.

The registered operators (see ops.py) cost several microseconds per call, which is most of a small norm's time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmsrepro.kernels import reference
from rmsrepro.kernels.spec import NormSpec


class FusedNorm(torch.autograd.Function):
    """y = norm(x): apply(x [..., n], gain [n], bias [n], plan), the plan being one of the backends' (see choice.py).

    The row statistics are kept beside the saved tensors: they are neither input nor output, and packing them costs
    as much as a small norm.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor | None, bias: Tensor | None, plan: Any) -> Tensor:
        """Run the forward kernel and keep what the backward one reads."""
        y, _, stat = plan.forward(x, gain, bias)
        ctx.save_for_backward(x, gain)
        ctx.rest = (plan, stat)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Run the backward kernel, or the differentiable formula when a graph of it is wanted."""
        x, gain = ctx.saved_tensors
        plan, stat = ctx.rest
        want_x, want_gain, want_bias, _ = ctx.needs_input_grad
        if torch.is_grad_enabled():
            wanted = (want_x, want_gain, want_bias)
            return (*reference.backward(plan.spec, dy, x, gain, wanted, plan.bias), None)
        dx, dgain, dbias = plan.backward(dy, x, gain, stat, want_x, want_gain, want_bias)
        return dx, dgain, dbias, None


class FusedAddNorm(torch.autograd.Function):
    """(norm(s), s) with s = x + residual: apply(x, residual, gain, bias, plan)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, gain: Tensor | None, bias: Tensor | None, plan: Any
    ) -> tuple[Tensor, Tensor]:
        """Run the forward kernel, which writes the sum on its way."""
        y, added, stat = plan.forward(x, gain, bias, residual)
        ctx.save_for_backward(added, gain)
        ctx.rest = (plan, stat)
        return y, added

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dsum: Tensor) -> tuple[Tensor | None, ...]:
        """Give x and the residual the same gradient: through the norm, plus the one that reaches the sum itself."""
        added, gain = ctx.saved_tensors
        plan, stat = ctx.rest
        needs = ctx.needs_input_grad
        wanted = (needs[0] or needs[1], needs[2], needs[3])
        if torch.is_grad_enabled():
            dx, dgain, dbias = reference.backward(plan.spec, dy, added, gain, wanted, plan.bias)
            dx = dx if dx is None else dx + dsum
        else:
            dx, dgain, dbias = plan.backward(dy, added, gain, stat, *wanted, dsum)
        return dx if needs[0] else None, dx if needs[1] else None, dgain, dbias, None
