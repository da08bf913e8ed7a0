"""What a translation model is trained for: smoothed cross-entropy, normalised as one of the code bases does."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.layers.linear_cross_entropy import NO_SMOOTHING, Smoothing, Workspace, linear_cross_entropy
from rmsrepro.tasks.translation.config import TranslationConfig


@dataclass(frozen=True)
class Objective:
    """Label smoothing, and what the loss is a mean over.

    `token`: all target positions alike. `sentence`: the mean over sentences of their sums (Nematus).
    `sentence_mean`: the mean over sentences of their means over positions (the paper's Transformer code base).
    """

    smoothing: Smoothing = NO_SMOOTHING
    over: str = "token"

    @staticmethod
    def of(cfg: TranslationConfig) -> Objective:
        """Return what the configuration says."""
        return Objective(Smoothing(cfg.label_smoothing, cfg.smoothing == "others"), cfg.loss)

    def weight(self, sentences: int, tokens: int) -> int:
        """Return what the summed loss of a batch is divided by."""
        return tokens if self.over == "token" else sentences

    def loss_sum(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, batch: PairBatch, workspace: Workspace
    ) -> Tensor:
        """Return the sum of the loss, given features x [N, D] at every position of `batch.target_mask`."""
        mask = batch.target_mask
        rows = None
        if self.over == "sentence_mean":
            rows = (1.0 / batch.target_lengths).unsqueeze(1).expand_as(mask)[mask]
        targets = batch.target_out[mask]
        return linear_cross_entropy(x, weight, bias, targets, workspace, smoothing=self.smoothing, row_weights=rows)


#: The negative log-likelihood of every token, which validation reports whatever training minimises.
LIKELIHOOD = Objective()
