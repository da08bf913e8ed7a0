"""How far every sentence is from lying below every image, without ever holding all differences at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Differences that are held at once on a CPU: a megabyte, which stays in the second-level cache.
_CACHED = 1 << 18
#: And on a GPU.
_AT_ONCE = 1 << 26


def order_violation(sentences: Tensor, images: Tensor) -> Tensor:
    """Return sum_d max(0, s_d - im_d)^2 for every sentence [S, D] and image [I, D]: [S, I].

    Zero where the sentence lies below the image in every dimension. Source: Vendrov et al. 2016, equation 3; the
    paper's section 2.4. It cannot be differentiated twice.
    """
    return _OrderViolation.apply(sentences, images)


def order_violation_reference(sentences: Tensor, images: Tensor) -> Tensor:
    """Return what `order_violation` does, as it is written down; it holds S * I * D numbers several times."""
    return (sentences.unsqueeze(1) - images).clamp_min(0).square().sum(-1)


def cosine_distance(sentences: Tensor, images: Tensor) -> Tensor:
    """Return minus the inner product of every sentence [S, D] with every image [I, D]: [S, I]."""
    return -(sentences @ images.t())


class _OrderViolation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sentences: Tensor, images: Tensor) -> Tensor:
        ctx.save_for_backward(sentences, images)
        errors = sentences.new_empty(len(sentences), len(images))
        for rows, columns, over in _tiles(sentences, images):
            torch.sum(over.square_(), dim=-1, out=errors[rows, columns])
        return errors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        sentences, images = ctx.saved_tensors
        to_sentences, to_images = torch.zeros_like(sentences), torch.zeros_like(images)
        for rows, columns, over in _tiles(sentences, images):
            over.mul_(grad[rows, columns].unsqueeze(-1))
            to_sentences[rows] += over.sum(1)
            to_images[columns] -= over.sum(0)
        return to_sentences.mul_(2), to_images.mul_(2)


def _tiles(sentences: Tensor, images: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield max(0, s - im) [s, i, D] tile by tile, in memory that the next tile takes over."""
    dim = sentences.shape[1]
    budget = max(1, (_CACHED if sentences.device.type == "cpu" else _AT_ONCE) // dim)
    wide = min(len(images), max(budget, 1))
    high = max(1, budget // wide)
    memory = sentences.new_empty(high * wide * dim)
    for first in range(0, len(sentences), high):
        rows = slice(first, min(first + high, len(sentences)))
        for start in range(0, len(images), wide):
            columns = slice(start, min(start + wide, len(images)))
            shape = (rows.stop - rows.start, columns.stop - columns.start, dim)
            over = memory[: shape[0] * shape[1] * dim].view(shape)
            torch.sub(sentences[rows].unsqueeze(1), images[columns], out=over)
            yield rows, columns, over.clamp_min_(0)
