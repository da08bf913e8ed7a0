"""The likeliest classes under the softmax of a linear map: what a search asks of its model after every token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.kernels.cpu import likeliest as kernel
from rmsrepro.kernels.cpu import panels
from rmsrepro.kernels.cpu.operands import serves

#: Neighbouring logits of which first only the largest is looked at.
_BLOCK = 64


class Likeliest:
    """The likeliest classes of softmax(x @ weight.T + bias), for many x and a weight that stays as it is.

    On a CPU one kernel (`rmsrepro/kernels/cpu/likeliest.cpp`) finds them without writing a logit to memory, in float32
    or, under autocast and where the processor can, from products in bfloat16; elsewhere torch's operations do.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, forbidden: Sequence[int], asked: int) -> None:
        """weight [V, D], bias [V] or None; `forbidden` are never among the likeliest, `asked` is told of in any case.

        Forbidden classes keep their share of the probability. On a CPU the autocast that counts is the one in force
        now, when the weight is packed. Raises ValueError for a bias of another size and for a
        forbidden or asked class that is none.
        """
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ValueError(f"bias is {list(bias.shape)}, expected {list(weight.shape[:1])}")
        if not 0 <= asked < len(weight):
            raise ValueError(f"class {asked} is asked for of {len(weight)}")
        if any(not 0 <= i < len(weight) for i in forbidden):
            raise ValueError(f"classes {list(forbidden)} are forbidden of {len(weight)}")
        self.weight, self.bias, self.asked = weight.detach(), None if bias is None else bias.detach(), asked
        self.forbidden = torch.tensor(forbidden, dtype=torch.int64, device=weight.device)
        self.panels = _packed(self.weight) if weight.numel() and serves(self.weight, self.bias) else None

    def __call__(self, x: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities [N, n] and classes [N, n], and the log-probability [N] of the asked class.

        x [N, D]; n is `count` or, with fewer classes, V. Classes fall by their probability; where only forbidden ones
        are left, log-probabilities are -inf. Takes no gradient. Raises ValueError for x of another shape and for a
        `count` below 1.
        """
        if x.ndim != 2 or x.shape[1] != self.weight.shape[1]:
            raise ValueError(f"x is {list(x.shape)}, expected [N, {self.weight.shape[1]}]")
        if count < 1:
            raise ValueError(f"{count} classes are wanted, expected 1 or more")
        count = min(count, len(self.weight))
        if self.panels is not None and serves(x := x.float()):
            return kernel.likeliest(x, self.panels, len(self.weight), self.bias, count, self.forbidden, self.asked)
        with torch.no_grad():
            # The softmax writes to memory of its own: with `out` its input, torch would copy that first.
            log_probs = torch.log_softmax(F.linear(x, self.weight, self.bias).float(), 1)
            asked = log_probs[:, self.asked].clone()
            log_probs.index_fill_(1, self.forbidden, -torch.inf)
            return *largest(log_probs, count), asked


def _packed(weight: Tensor) -> Tensor | None:
    """Return the weight packed in the type that products have now, or None where the kernel has none of that type."""
    kind = weight.device.type
    if not torch.is_autocast_enabled(kind):
        return panels.pack(weight)
    bfloat16 = torch.get_autocast_dtype(kind) == torch.bfloat16 and panels.has_bfloat16_product()
    return panels.pack_bfloat16(weight) if bfloat16 else None


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `x.topk(count, 1)` returns, in several times less time on a CPU for rows of thousands.

    The largest elements of a row lie in those blocks whose own largest elements are the largest.
    """
    rows, width = x.shape
    if width < 4 * _BLOCK * count:
        values, ids = x.topk(count, 1)
        return values, ids
    blocks = F.pad(x, (0, -width % _BLOCK), value=-torch.inf).view(rows, -1, _BLOCK)
    best = blocks.amax(2).topk(count, 1).indices  # [N, count]
    offsets = torch.arange(_BLOCK, device=x.device)
    ids = (best.unsqueeze(2) * _BLOCK + offsets).flatten(1)  # [N, count * 64]
    values, places = blocks.flatten(1).gather(1, ids).topk(count, 1)
    # What fills the last block up is as good as any element of a row that has fewer than `count` above -inf.
    return values, ids.gather(1, places).clamp_(max=width - 1)
