"""A batch of sentence pairs as models read it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rmsrepro.data.parallel.symbols import BOS, EOS, PAD, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "PairBatch"]


@dataclass(frozen=True)
class PairBatch:
    """B sentence pairs, int64, padded with PAD on the right."""

    source: Tensor
    """[B, S]: the source's ids, EOS last."""
    source_lengths: Tensor
    """[B]: ids of each source, EOS counted."""
    target_in: Tensor
    """[B, T]: BOS, then the target's ids."""
    target_out: Tensor
    """[B, T]: the target's ids, then EOS: what is to be predicted."""
    target_lengths: Tensor
    """[B]: ids of each target to be predicted, EOS counted."""

    @property
    def target_mask(self) -> Tensor:
        """[B, T], true where there is something to predict."""
        steps = torch.arange(self.target_out.shape[1], device=self.target_out.device)
        return steps < self.target_lengths[:, None]
