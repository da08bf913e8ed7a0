"""Retrieval in both directions over folds of images, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rmsrepro.data.retrieval.captions import PER_IMAGE
from rmsrepro.data.retrieval.features import normalise_rows
from rmsrepro.data.retrieval.split import Pairs
from rmsrepro.tasks.order_embedding.model import OrderEmbedding
from rmsrepro.tasks.order_embedding.ranks import caption_ranks, image_ranks, rank_metrics

#: Images or sentences that go through the model at once.
_BLOCK = 128


def folds(images: int, fold_images: int, most: int) -> list[range]:
    """Return up to `most` folds of `fold_images` images from the first on; one of all where there are fewer."""
    if images < fold_images:
        return [range(images)]
    count = min(most, images // fold_images)
    return [range(i * fold_images, (i + 1) * fold_images) for i in range(count)]


@torch.no_grad()
def evaluate_folds(
    model: OrderEmbedding, pairs: Pairs, parts: list[range], device: torch.device, *, normalise: bool
) -> dict[str, float]:
    """Return `caption_*` (image to sentence) and `image_*` (sentence to image) metrics, averaged over the folds."""
    found = [_evaluate_fold(model, pairs, np.asarray(part), device, normalise) for part in parts]
    return {name: sum(metrics[name] for metrics in found) / len(found) for name in found[0]}


def _evaluate_fold(
    model: OrderEmbedding, pairs: Pairs, images: np.ndarray, device: torch.device, normalise: bool
) -> dict[str, float]:
    captions = (images[:, None] * PER_IMAGE + np.arange(PER_IMAGE)).ravel()
    points = torch.cat([*_image_points(model, pairs, images, device, normalise)])
    errors = torch.empty(len(captions), len(images), device=device)
    for rows, sentences in _sentence_points(model, pairs, captions, device):
        errors[rows] = model.errors(sentences, points)
    image_of = torch.arange(len(images), device=device).repeat_interleave(PER_IMAGE)
    both = {"caption": caption_ranks(errors, image_of), "image": image_ranks(errors, image_of)}
    return {f"{side}_{name}": value for side, ranks in both.items() for name, value in rank_metrics(ranks).items()}


def _image_points(
    model: OrderEmbedding, pairs: Pairs, images: np.ndarray, device: torch.device, normalise: bool
) -> Iterator[Tensor]:
    for first in range(0, len(images), _BLOCK):
        rows = pairs.image_rows(images[first : first + _BLOCK])
        yield model.embed_images(torch.from_numpy(normalise_rows(rows) if normalise else rows).to(device))


def _sentence_points(
    model: OrderEmbedding, pairs: Pairs, captions: np.ndarray, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield positions in `captions` and the points of those, captions of like length together."""
    order = np.argsort(-pairs.captions.lengths[captions], kind="stable")
    for first in range(0, len(order), _BLOCK):
        rows = order[first : first + _BLOCK]
        tokens, lengths = pairs.captions.padded(captions[rows])
        points = model.embed_sentences(torch.from_numpy(tokens).to(device), torch.from_numpy(lengths))
        yield torch.from_numpy(rows).to(device), points
