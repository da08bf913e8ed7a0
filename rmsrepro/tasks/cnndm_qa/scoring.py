"""What counts as right: over the whole vocabulary, over the passage's entities, and by counting alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmsrepro.data.cloze.vocabulary import UNK
from rmsrepro.tasks.cnndm_qa.batch import ClozeBatch, EncodedQuestion


@dataclass(frozen=True)
class Scores:
    """The answers to one batch, each [B]."""

    word: Tensor
    """The likeliest word of the vocabulary."""
    entity: Tensor
    """The likeliest entity of the passage; -1 where it has none."""
    right_word: Tensor
    right_entity: Tensor
    nll: Tensor


def negative_log_likelihood(logits: Tensor, answer: Tensor, eps: float) -> Tensor:
    """Return -log(p + eps) of the answers, [B]; the code base's eps is 1e-8 (paper section 2.3)."""
    log_p = logits.float().log_softmax(1).gather(1, answer.unsqueeze(1)).squeeze(1)
    return -log_p if eps == 0 else -torch.logaddexp(log_p, torch.full_like(log_p, eps).log())


def score(logits: Tensor, batch: ClozeBatch, entities: range, eps: float) -> Scores:
    """Judge logits [B, V]. An answer that is not known, or for the entities not in the passage, is never right."""
    word = logits.argmax(1)
    is_entity = (batch.passage >= entities.start) & (batch.passage < entities.stop)  # [T, B]
    # Words that are no entity all point at one column, which is closed again.
    there = torch.zeros(len(logits), logits.shape[1], dtype=torch.bool, device=logits.device)
    there.scatter_(1, torch.where(is_entity, batch.passage, 0).t(), True)
    there[:, 0] = False
    entity = logits.masked_fill(~there, -torch.inf).argmax(1).masked_fill(~there.any(1), -1)
    known = batch.answer != UNK
    return Scores(
        word,
        entity,
        (word == batch.answer) & known,
        (entity == batch.answer) & known,
        negative_log_likelihood(logits, batch.answer, eps),
    )


def baselines(questions: Iterable[EncodedQuestion], entities: range) -> dict[str, float]:
    """Return how often counting alone is right, and how often nothing can be, over some questions.

    `max_frequency` answers the entity that the passage has most often, `exclusive_frequency` the one among those that
    the question does not name (Hermann et al. 2015). Of n entities that tie each counts 1/n, so that no rule for ties
    enters. `error_floor` is the share whose answer is not in the passage.
    """
    right = {"max_frequency": 0.0, "exclusive_frequency": 0.0, "error_floor": 0.0}
    number = 0
    for item in questions:
        number += 1
        found, counts = np.unique(item.passage, return_counts=True)
        names = (found >= entities.start) & (found < entities.stop)
        found, counts = found[names], counts[names]
        exclusive = ~np.isin(found, item.question)
        right["max_frequency"] += _share(found, counts, item.answer)
        right["exclusive_frequency"] += _share(found[exclusive], counts[exclusive], item.answer)
        right["error_floor"] += item.answer not in found
    return {name: value / max(number, 1) for name, value in right.items()}


def _share(found: np.ndarray, counts: np.ndarray, answer: int) -> float:
    best = found[counts == counts.max()] if len(found) else found
    return float(answer in best) / max(len(best), 1)
