"""Order-embedding retrieval: captioned images behind the task contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rmsrepro.data.retrieval.captions import PER_IMAGE
from rmsrepro.data.retrieval.features import normalise_rows
from rmsrepro.errors import DataError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.seeding import fold, permutation
from rmsrepro.tasks import base
from rmsrepro.tasks.base import Batch, TaskSpec
from rmsrepro.tasks.order_embedding import synthetic
from rmsrepro.tasks.order_embedding.config import Config as OrderEmbeddingConfig
from rmsrepro.tasks.order_embedding.corpus import load_corpus
from rmsrepro.tasks.order_embedding.evaluation import evaluate_folds, folds
from rmsrepro.tasks.order_embedding.loss import contrastive_loss
from rmsrepro.tasks.order_embedding.model import OrderEmbedding
from rmsrepro.tasks.order_embedding.ranks import DEFINITION

#: Batches of made-up data.
_SYNTHETIC_BATCHES = 8


class Task(base.Task):
    """Sentences and images that find each other: recall at 1, 5 and 10, both ways.

    An epoch visits every image once, with one of its captions drawn at random. The loss is summed over the batch's
    pairs, as in the paper's code: a batch has weight 1, and the gradient grows with the batch.
    """

    spec = TaskSpec(
        "order_embedding", primary="test/image_r1", direction="max", select="valid/recall_sum", items="captions"
    )

    @property
    def settings(self) -> OrderEmbeddingConfig:
        """The task's own settings."""
        assert isinstance(self.cfg.task, OrderEmbeddingConfig)
        return self.cfg.task

    def sites(self) -> set[str]:
        """The recurrent cell normalises its linear maps."""
        return {"linear"}

    def load(self) -> None:
        """Read the splits and refuse a training set that does not fill one batch."""
        self.corpus = load_corpus(self.cfg.data.name, self.data_root, self.settings)
        if "test" not in self.corpus.pairs:
            self.spec = replace(self.spec, primary="valid/image_r1")
        self._train, self._vocabulary = self.corpus.pairs["train"], len(self.corpus.vocabulary)
        self._drawn: tuple[int, np.ndarray, np.ndarray] | None = None
        size, limit = self.cfg.train.batch_size, self.settings.limit_train
        if len(self._train) < size:
            limited = "" if limit is None else f" under task.limit_train={limit}"
            raise DataError(
                f"{self.corpus.files['train'].text.path} has captions of {len(self._train)} images{limited}; "
                f"train.batch_size={size} needs as many"
            )

    def load_synthetic(self) -> None:
        """Make up a few batches of COCO's shapes."""
        self._train = synthetic.synthetic_pairs(_SYNTHETIC_BATCHES * self.cfg.train.batch_size)
        self._vocabulary, self._drawn = synthetic.VOCABULARY, None

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build both encoders."""
        return OrderEmbedding(norm, self.settings, self._vocabulary, self._train.width)

    def batches_per_epoch(self) -> int:
        """Return the number of whole batches; what is left over is dropped, as in the paper's code."""
        return len(self._train) // self.cfg.train.batch_size

    def batch(self, epoch: int, index: int) -> Batch:
        """Return `batch_size` images with one caption each, the longest caption first."""
        order, captions = self._draw(epoch)
        size = self.cfg.train.batch_size
        images = order[index * size : (index + 1) * size]
        rows = images * PER_IMAGE + captions[images]
        longest_first = np.argsort(-self._train.captions.lengths[rows], kind="stable")
        images, rows = images[longest_first], rows[longest_first]
        features = self._train.image_rows(images)
        if self.settings.normalise_features:
            features = normalise_rows(features)
        tokens, lengths = self._train.captions.padded(rows)
        inputs = (
            torch.from_numpy(features).to(self.device),
            torch.from_numpy(tokens).to(self.device),
            torch.from_numpy(lengths),
        )
        return Batch(inputs, weight=1.0, items=size)

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return an epoch's order of the images, and which of its captions each has: int64 [images] both."""
        if self._drawn is None or self._drawn[0] != epoch:
            count = len(self._train)
            random = np.random.Generator(np.random.Philox(fold(self.cfg.seed, "captions", epoch)))
            captions = random.integers(0, PER_IMAGE, count)
            self._drawn = epoch, permutation(count, self.cfg.seed, epoch), captions
        return self._drawn[1], self._drawn[2]

    def loss_sum(self, model: nn.Module, batch: Batch, carry: Any) -> tuple[Tensor, Any]:
        """Return the loss summed over all pairs of the batch."""
        images, sentences = model(*batch.inputs)
        errors = OrderEmbedding.score_function(self.settings.score)(sentences, images)
        return contrastive_loss(errors, self.settings.margin), None

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Return recalls and ranks both ways, and their sum that selects; nothing for a split that is not there."""
        if split not in self.corpus.pairs:
            return {}
        assert isinstance(model, OrderEmbedding)
        found = evaluate_folds(
            model,
            self.corpus.pairs[split],
            self._folds(split),
            self.device,
            normalise=self.settings.normalise_features,
        )
        sides = ("image",) if self.settings.select == "image" else ("image", "caption")
        found["recall_sum"] = sum(found[f"{side}_r{k}"] for side in sides for k in (1, 5, 10))
        return {f"{split}/{name}": value for name, value in found.items()}

    def _folds(self, split: str) -> list[range]:
        most = self.settings.valid_folds if split == "valid" else self.settings.test_folds
        return folds(len(self.corpus.pairs[split]), self.settings.fold_images, most)

    def checksums(self) -> dict[str, str]:
        """Return the checksums of captions and features."""
        return self.corpus.checksums()

    def facts(self) -> dict[str, Any]:
        """Return sizes, how recall is counted, what is left out, and what the run is judged by."""
        facts = {**self.corpus.facts(), "recall": DEFINITION, "judged_by": self.spec.primary}
        for split in self.corpus.pairs.keys() - {"train"}:
            parts = self._folds(split)
            facts[f"{split}_folds"] = len(parts)
            facts[f"{split}_images_scored"] = sum(map(len, parts))
        size = self.cfg.train.batch_size
        return {**facts, "train_images_dropped_per_epoch": len(self._train) % size}
