"""An embedding whose matrix serves the softmax too, with one gradient array for both uses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@torch.compiler.disable
def tied_embedding(ids: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows `weight[ids]` [..., D], and `weight` [V, D] for the one other use that it has.

    With `F.embedding` autograd fills a second array [V, D], most of it zeros, and adds it to the softmax's gradient.
    Here the softmax's gradient passes through this node, which adds the rows' gradients to it in place; so whatever
    uses the returned matrix must hand back a gradient of its own making. It cannot be differentiated twice.
    """
    return _TiedEmbedding.apply(ids, weight)


class _TiedEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(ids)
        return weight[ids], weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, rows_grad: Tensor, weight_grad: Tensor) -> tuple[None, Tensor]:  # pyrefly: ignore[bad-override]
        (ids,) = ctx.saved_tensors
        if ids.is_cuda:
            # Adding rows one by one is in no fixed order on a GPU; this is.
            dense = torch.ops.aten.embedding_dense_backward(rows_grad, ids, len(weight_grad), -1, False)
            return None, weight_grad.add_(dense)
        return None, weight_grad.index_add_(0, ids.flatten(), rows_grad.flatten(0, -2))
