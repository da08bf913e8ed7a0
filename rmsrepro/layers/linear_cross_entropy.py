"""A linear map to many classes and its cross-entropy in one operation: what language and translation models end with.

`F.cross_entropy(F.linear(x, weight, bias), targets)` fills five arrays of [N, V] in one step (logits, log-softmax,
the gradients of both, and a scatter), 93 MB each at 700 tokens and 33,278 words; most of its time beyond the matrix
products goes into moving and newly mapping that memory. Here a few hundred rows at a time pass through one array,
kept from step to step, that holds their logits, then their softmax, then their gradient; the gradients of x, weight
and bias are summed up on the way, so that the backward pass only scales them. In float32 on a CPU one kernel does all
of that (`rmsrepro/kernels/cpu/cross_entropy.cpp`), elsewhere torch's operations.

Label smoothing costs no pass over the array: the sum of a row's logits is one scalar product with the sum of the
weight's rows, and what it adds to the gradients is of rank one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from rmsrepro.kernels.cpu import cross_entropy
from rmsrepro.kernels.cpu.operands import serves

#: Columns of one matrix product on a CPU. Whole rows of [N, V] lie so far apart that a product which writes them at
#: once spends a third of its time on page look-ups; blocks of 512 to 1024 columns do not.
_BLOCK_COLUMNS = 1024
#: Logits that are held at once, where that makes for rows enough.
_CPU_LOGITS, _GPU_LOGITS = 1 << 21, 1 << 28
#: Rows that are held at once at least: the gradient of the weight is read and written once for each such block.
_LEAST_ROWS = 384


@dataclass(frozen=True)
class Smoothing:
    """Targets that give away a share `mass` of their probability (Szegedy et al. 2016)."""

    mass: float = 0.0
    among_others: bool = False
    """False: all V classes share it, the wanted one too. True: the V - 1 others do, and the entropy of that target
    distribution is subtracted, so that the best possible loss is 0 (the paper's Transformer code base)."""

    def shares(self, classes: int) -> tuple[float, float]:
        """Return what the wanted class has more than every other, and what every class has."""
        every = self.mass / (max(classes - 1, 1) if self.among_others else classes)
        return 1.0 - self.mass - (every if self.among_others else 0.0), every

    def entropy(self, classes: int) -> float:
        """Return the entropy that is subtracted."""
        if not self.among_others or not self.mass or classes < 2:
            return 0.0
        wanted, other = torch.tensor([1.0 - self.mass, self.mass / (classes - 1)], dtype=torch.float64)
        return -(wanted * wanted.log() + self.mass * other.log()).item()


NO_SMOOTHING = Smoothing()


class Workspace:
    """One array that is lent to a pass and comes back after it.

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
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    workspace: Workspace | None = None,
    *,
    smoothing: Smoothing = NO_SMOOTHING,
    row_weights: Tensor | None = None,
) -> Tensor:
    """Return the cross-entropy of softmax(x @ weight.T + bias), summed over the rows.

    x [N, D], weight [V, D], bias [V] or None, targets int64 [N], row_weights [N] (None: all 1). The products are
    taken in the autocast type where autocast is on; logits, softmax and sum in float32 at least. `reference` is the
    same in stock operations. It cannot be differentiated twice, nor with respect to `row_weights`. Raises ValueError
    for other shapes, targets of another type, and tensors of several devices.
    """
    _require_fitting(x, weight, bias, targets, row_weights)
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    with torch.autocast(kind, enabled=False):
        needs_grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
        return _LinearCrossEntropy.apply(
            x, weight, bias, targets, row_weights, smoothing, workspace or Workspace(), needs_grad
        )


def reference(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    smoothing: Smoothing = NO_SMOOTHING,
    row_weights: Tensor | None = None,
) -> Tensor:
    """Return what `linear_cross_entropy` returns, one stock operation after another."""
    logits = F.linear(x, weight, bias)
    log_p = logits.to(_at_least_float32(logits.dtype)).log_softmax(1)
    classes = len(weight)
    others = (classes - 1) if smoothing.among_others else classes
    wanted = torch.full_like(log_p, smoothing.mass / others)
    own = 1.0 - smoothing.mass + (0.0 if smoothing.among_others else smoothing.mass / classes)
    wanted.scatter_(1, targets.unsqueeze(1), own)
    losses = -(wanted * log_p).sum(1)
    if smoothing.among_others:
        losses = losses + torch.xlogy(wanted, wanted).sum(1)
    return losses.sum() if row_weights is None else losses @ row_weights.to(losses.dtype)


def _require_fitting(
    x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, row_weights: Tensor | None
) -> None:
    """Check all shapes, the targets' type and the devices, as the kernel reads plain addresses."""
    rows, classes, depth = len(x), len(weight), weight.shape[-1]
    expected = {
        "x": (x, (rows, depth)),
        "weight": (weight, (classes, depth)),
        "bias": (bias, (classes,)),
        "targets": (targets, (rows,)),
        "row_weights": (row_weights, (rows,)),
    }
    for name, (given, wanted) in expected.items():
        if given is not None and (given.shape != wanted or given.device != x.device):
            raise ValueError(f"{name} is {list(given.shape)} on {given.device}, expected {list(wanted)} on {x.device}")
    if targets.dtype != torch.int64:
        raise ValueError(f"targets are {targets.dtype}, expected torch.int64")


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        row_weights: Tensor | None,
        smoothing: Smoothing,
        workspace: Workspace,
        needs_grad: bool,
    ) -> Tensor:
        wants = ctx.needs_input_grad[:3] if needs_grad else (False,) * 3
        shares = smoothing.shares(len(weight))
        if weight.numel() and serves(x, weight, bias):
            sums = _in_one_kernel(x, weight, bias, targets, row_weights, shares[0], wants)
        else:
            sums = _in_blocks_of_rows(x, weight, bias, targets, row_weights, shares, workspace, wants)
        sums.smooth(shares[1], smoothing.entropy(len(weight)), row_weights)
        ctx.grads = sums.gradients() if needs_grad else None
        return sums.loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyrefly: ignore[bad-override]
        if ctx.grads is None:
            raise RuntimeError("linear_cross_entropy keeps no graph: call backward once")
        grads, ctx.grads = ctx.grads, None
        return *(None if g is None else g.mul_(grad.to(g.dtype)) for g in grads), *(None,) * 5


class _Sums:
    """The loss, and the gradients of x [N, D], weight [V, D] and bias [V], while the blocks of rows go by."""

    def __init__(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, wanted: tuple[bool, ...]
    ) -> None:
        self.inputs = (x, weight, bias)
        self.loss = torch.zeros((), dtype=dtype, device=x.device)
        self.x = torch.empty_like(x) if wanted[0] else None
        self.weight = torch.zeros_like(weight, dtype=dtype) if wanted[1] else None
        self.bias = None if bias is None or not wanted[2] else torch.zeros_like(bias, dtype=dtype)

    def add_gradients(self, block: slice, by_logit: Tensor) -> None:
        """Add what the rows in `block` contribute, given the loss's gradient by their logits [n, V]."""
        x, weight, _ = self.inputs
        if self.bias is not None:
            self.bias.addmv_(by_logit.t(), by_logit.new_ones(len(by_logit)))
        factor = by_logit.to(x.dtype)
        if self.x is not None:
            torch.mm(factor, weight, out=self.x[block])
        if self.weight is not None:
            if factor.dtype == self.weight.dtype:
                self.weight.addmm_(factor.t(), x[block])
            else:
                self.weight += factor.t() @ x[block]

    def smooth(self, share: float, entropy: float, row_weights: Tensor | None) -> None:
        """Take `share` of the sum of all logits, and the entropy for each row, from the loss."""
        if not share:
            return
        x, weight, bias = self.inputs
        dtype = self.loss.dtype
        x, weight = x.to(dtype), weight.to(dtype)
        scale = x.new_ones(len(x)) if row_weights is None else row_weights.to(x.dtype)
        rows, classes = scale @ x, weight.sum(0)
        logits = rows @ classes if bias is None else rows @ classes + scale.sum() * bias.to(dtype).sum()
        self.loss -= share * logits + entropy * scale.sum()
        if self.x is not None:
            self.x.sub_((share * scale).outer(classes))
        if self.weight is not None:
            self.weight.sub_(share * rows)
        if self.bias is not None:
            self.bias.sub_(share * scale.sum())

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Return the three gradients in the types of their tensors."""
        found = zip((self.x, self.weight, self.bias), self.inputs, strict=True)
        return tuple(None if grad is None or like is None else grad.to(like.dtype) for grad, like in found)


def _in_one_kernel(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    row_weights: Tensor | None,
    wanted_share: float,
    wants: tuple[bool, ...],
) -> _Sums:
    """Return loss and gradients without what smoothing adds to them, from the CPU kernel."""
    sums = _Sums(x, weight, bias, x.dtype, (False,) * 3)
    losses, sums.x, sums.weight, sums.bias = cross_entropy.linear_cross_entropy(
        x, weight, bias, targets, row_weights, wanted_share, wants
    )
    sums.loss += losses.sum() if row_weights is None else losses @ row_weights.to(losses.dtype)
    return sums


def _in_blocks_of_rows(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    row_weights: Tensor | None,
    shares: tuple[float, float],
    workspace: Workspace,
    wants: tuple[bool, ...],
) -> _Sums:
    """Return loss and gradients without what smoothing adds to them, from torch's products."""
    dtype, classes = _at_least_float32(x.dtype), len(weight)
    wanted_share, every_share = shares
    sums = _Sums(x, weight, bias, dtype, wants)
    rows = max(min(len(x), _rows_at_once(x, classes)), 1)
    whole = workspace.take(rows, classes, x, dtype)
    for start in range(0, len(x), rows):
        block = slice(start, start + rows)
        part, wanted = x[block], targets[block].unsqueeze(1)
        scale = None if row_weights is None else row_weights[block].to(dtype)
        array = whole[: len(part)]
        _logits(part, weight, bias, array)
        logits = array.gather(1, wanted).squeeze(1) if every_share else None
        losses = _softmax_in_place(array, wanted, part, weight, bias)
        if logits is not None:
            losses = losses.add_(logits, alpha=every_share * classes)
        sums.loss += losses.sum() if scale is None else losses @ scale
        if any(wants):
            array.scatter_add_(1, wanted, array.new_full((1, 1), -wanted_share).expand(len(part), 1))
            sums.add_gradients(block, array if scale is None else array.mul_(scale.unsqueeze(1)))
    workspace.give_back(whole)
    return sums


def _rows_at_once(x: Tensor, classes: int) -> int:
    return max((_GPU_LOGITS if x.is_cuda else _CPU_LOGITS) // classes, _LEAST_ROWS)


def _logits(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Fill `out` [N, V] with x @ weight.T + bias."""
    if out.dtype != x.dtype:
        out.copy_(F.linear(x, weight, bias))
        return
    columns = len(weight) if x.is_cuda else _BLOCK_COLUMNS
    for start in range(0, len(weight), columns):
        block = slice(start, start + columns)
        if bias is None:
            torch.mm(x, weight[block].t(), out=out[:, block])
        else:
            torch.addmm(bias[block], x, weight[block].t(), out=out[:, block])


def _softmax_in_place(array: Tensor, wanted: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
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
        margin = ((weight[at] - weight[target]) * x[rows]).sum(1)
        if bias is not None:
            margin += bias[at] - bias[target]
        losses[rows] = margin.to(p.dtype) - largest.log()
    return losses


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
