"""From a matrix of errors to ranks and recall; a tie is held against the model.

A rank is 1 plus the number of wrong candidates whose error is not larger than the right one's. So a model that gives
everything the same error ranks last, not first, and so does one whose errors are not numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

#: What a recall counts, for the record.
DEFINITION = (
    "recall@k: percentage of queries whose rank is at most k; an image's rank is that of the best of its captions; "
    "ties count against the model; a median of two middle ranks is their mean"
)


def image_ranks(errors: Tensor, image_of: Tensor) -> Tensor:
    """Return the rank of the right image for every caption, int64 [C], 1 the best.

    errors [C, I]; image_of int64 [C]: the image of each caption.
    """
    right = errors.gather(1, image_of.unsqueeze(1))
    return (~(errors > right)).sum(1)  # the right image itself is the 1; NaN is never larger


def caption_ranks(errors: Tensor, image_of: Tensor) -> Tensor:
    """Return the rank of the best right caption for every image, int64 [I], 1 the best.

    errors [C, I]; image_of int64 [C]: the image of each caption; every image has at least one.
    """
    own = image_of.unsqueeze(1) == torch.arange(errors.shape[1], device=errors.device)
    best = errors.masked_fill(~own, float("inf")).amin(0)
    return 1 + (~(errors > best) & ~own).sum(0)


def rank_metrics(ranks: Tensor) -> dict[str, float]:
    """Return recall at 1, 5 and 10 in percent, mean rank and median rank."""
    values = ranks.cpu().numpy()
    recalls = {f"r{k}": 100.0 * float((values <= k).mean()) for k in (1, 5, 10)}
    return {**recalls, "mean_rank": float(values.mean()), "median_rank": float(np.median(values))}
