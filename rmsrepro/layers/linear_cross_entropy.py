"""A linear map to many classes and its cross-entropy in one operation: what a language model ends with.

`F.cross_entropy(F.linear(x, weight, bias), targets)` fills five arrays of [N, V] in one step (logits, log-softmax,
the gradients of both, and a scatter), 93 MB each at 700 tokens and 33,278 words; most of its time beyond the matrix
products goes into moving and newly mapping that memory. Here one array, kept from step to step, holds the logits,
then their softmax, then their gradient. `scripts/compare_word_language_model.py` measures what that saves.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Columns of one matrix product on a CPU. Whole rows of [N, V] lie so far apart that a product which writes them at
#: once spends a third of its time on page look-ups; blocks of 512 to 1024 columns do not.
_BLOCK_COLUMNS = 1024


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
        _logits(x, weight, bias, array)
        wanted = targets.unsqueeze(1)
        loss = _softmax_in_place(array, wanted, x, weight, bias).sum()
        if needs_grad:
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
        bias_grad = (array.t() @ scale.expand(len(x))).to(x.dtype) if ctx.needs_input_grad[2] else None
        ctx.workspace.give_back(array)
        return x_grad, weight_grad, bias_grad, None, None, None


def _logits(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> None:
    """Fill `out` [N, V] with x @ weight.T + bias."""
    if out.dtype != x.dtype:
        out.copy_(torch.addmm(bias, x, weight.t()))
        return
    columns = len(weight) if x.is_cuda else _BLOCK_COLUMNS
    for block, w, b in zip(*(t.split(columns, dim) for t, dim in ((out, 1), (weight, 0), (bias, 0))), strict=True):
        torch.addmm(b, x, w.t(), out=block)


def _softmax_in_place(array: Tensor, wanted: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Turn logits [N, V] into probabilities, and return -log of those at `wanted` [N, 1], as [N]."""
    if array.is_cuda:
        torch.log_softmax(array, 1, out=array)
        losses = -array.gather(1, wanted).squeeze(1)
        array.exp_()
        return losses
    # One pass over the array in place of two; a probability too small for its type is then found from the largest
    # of its row, whose logit differs from the wanted one by a scalar product.
    torch.softmax(array, 1, out=array)
    p = array.gather(1, wanted).squeeze(1)
    losses = -p.log()
    rows = (p < torch.finfo(p.dtype).tiny).nonzero().squeeze(1)
    if len(rows):
        largest, at = array[rows].max(1)
        target = wanted[rows, 0]
        margin = ((weight[at] - weight[target]) * x[rows]).sum(1) + bias[at] - bias[target]
        losses[rows] = margin.to(p.dtype) - largest.log()
    return losses


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
