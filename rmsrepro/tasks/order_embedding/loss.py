"""The contrastive loss of matching pairs against everything else in the batch."""

from __future__ import annotations

import torch
from torch import Tensor


def contrastive_loss(errors: Tensor, margin: float) -> Tensor:
    """Return the hinge summed over all in-batch negatives of both directions.

    errors [B, B]: the error of sentence i with image j; pairs on the diagonal. A negative costs
    max(0, margin - error + the pair's error). Source: the paper's section 2.4, Vendrov et al. 2016.
    """
    pairs = errors.diagonal()
    costs = (margin - errors + pairs.unsqueeze(1)).relu() + (margin - errors + pairs).relu()
    return costs.masked_fill(torch.eye(len(errors), dtype=torch.bool, device=errors.device), 0.0).sum()
