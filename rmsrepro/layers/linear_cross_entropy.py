"""A linear map to many classes and its cross-entropy in one operation: what a language model ends with.

`F.cross_entropy(F.linear(x, weight, bias), targets)` fills five arrays of [N, V] in one step (logits, log-softmax,
the gradients of both, and a scatter), 93 MB each at 700 tokens and 33,278 words; most of its time beyond the matrix
products goes into moving and newly mapping that memory. Here one array, kept from step to step, holds the logits,
then their softmax, then their gradient.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


class Workspace:
    """One array that is lent to a forward pass and comes back after its backward pass.

    Several passes in flight get arrays of their own, so lending is never wrong, only slower.
    """

    def __init__(self) -> None:
        self._idle: Tensor | None = None

    def take(self, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Return an array [rows, columns] with arbitrary content, on the device of `like`."""
        idle, self._idle = self._idle, None
        size = rows * columns
        if idle is None or idle.numel() < size or idle.dtype != dtype or idle.device != like.device:
            idle = torch.empty(size, dtype=dtype, device=like.device)
        return idle[:size].view(rows, columns)

    def give_back(self, array: Tensor) -> None:
        """Let the next pass have `array`."""
        base = array._base
        self._idle = array.view(-1) if base is None else base


@torch.compiler.disable
def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, workspace: Workspace | None = None
) -> Tensor:
    """Return the cross-entropy of softmax(x @ weight.T + bias), summed over the rows.

    x [N, D], weight [V, D], bias [V], targets int64 [N]. The products are taken in the autocast type where autocast
    is on; logits, softmax and sum in float32 at least. `reference` is the same in stock operations. It cannot be
    differentiated twice.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
    with torch.autocast(kind, enabled=False):
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (x, weight, bias))
        return _LinearCrossEntropy.apply(x, weight, bias, targets, workspace or Workspace(), needs_grad)


def reference(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return what `linear_cross_entropy` returns, one stock operation after another."""
    logits = F.linear(x, weight, bias)
    return F.cross_entropy(logits.to(_at_least_float32(logits.dtype)), targets, reduction="sum")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, workspace: Workspace, needs_grad: bool
    ) -> Tensor:
        array = workspace.take(len(x), len(weight), x, _at_least_float32(x.dtype))
        if array.dtype == x.dtype:
            torch.addmm(bias, x, weight.t(), out=array)
        else:
            array.copy_(torch.addmm(bias, x, weight.t()))
        wanted = targets.unsqueeze(1)
        torch.log_softmax(array, 1, out=array)
        loss = -array.gather(1, wanted).sum()
        if needs_grad:
            array.exp_()
            array.scatter_add_(1, wanted, array.new_full((1, 1), -1.0).expand(len(x), 1))
            ctx.save_for_backward(x, weight)
            ctx.array, ctx.workspace = array, workspace
        else:
            workspace.give_back(array)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        if ctx.array is None:
            raise RuntimeError("linear_cross_entropy keeps no graph: call backward once")
        x, weight = ctx.saved_tensors
        array, ctx.array = ctx.array, None
        # The small factor of each product is scaled rather than the large result.
        scale = grad.to(array.dtype)
        by_logit = array.to(x.dtype)
        x_grad = (by_logit @ weight) * scale.to(x.dtype) if ctx.needs_input_grad[0] else None
        weight_grad = by_logit.t() @ (x * scale.to(x.dtype)) if ctx.needs_input_grad[1] else None
        bias_grad = (array.sum(0) * scale).to(x.dtype) if ctx.needs_input_grad[2] else None
        ctx.workspace.give_back(array)
        return x_grad, weight_grad, bias_grad, None, None, None


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
