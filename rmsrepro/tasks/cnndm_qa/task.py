"""Cloze questions on news: data, attentive reader, error rate and baselines behind the task contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rmsrepro.config import Config
from rmsrepro.data.progress import say
from rmsrepro.errors import DataError
from rmsrepro.norms.factory import NormFactory
from rmsrepro.seeding import fold
from rmsrepro.tasks import base
from rmsrepro.tasks.base import Batch, TaskSpec
from rmsrepro.tasks.cnndm_qa.batch import make_batch
from rmsrepro.tasks.cnndm_qa.config import Config as ReaderConfig
from rmsrepro.tasks.cnndm_qa.corpus import ClozeCorpus, load_corpus
from rmsrepro.tasks.cnndm_qa.entities import permutation
from rmsrepro.tasks.cnndm_qa.initialisation import initialise
from rmsrepro.tasks.cnndm_qa.model import AttentiveReader
from rmsrepro.tasks.cnndm_qa.order import epoch_order
from rmsrepro.tasks.cnndm_qa.scoring import baselines, negative_log_likelihood, score
from rmsrepro.tasks.cnndm_qa.synthetic import synthetic_corpus
from rmsrepro.tasks.data_root import prepared_root_of

#: Questions in one forward pass of an evaluation; it bounds memory.
_EVAL_BATCH = 64


class Task(base.Task):
    """Fill the gap of a question about a passage with one of its anonymous entities; error over all words."""

    spec = TaskSpec("cnndm_qa", primary="test/error", direction="min", select="valid/error", items="questions")

    def __init__(self, cfg: Config, device: torch.device) -> None:
        super().__init__(cfg, device)
        self._order: tuple[int, np.ndarray] | None = None
        self._baselines: dict[str, dict[str, float]] = {}
        self._answers: dict[str, str] = {}

    @property
    def settings(self) -> ReaderConfig:
        """The task's own settings."""
        assert isinstance(self.cfg.task, ReaderConfig)
        return self.cfg.task

    def sites(self) -> set[str]:
        """The recurrent cells normalise their linear maps."""
        return {"linear"}

    def load(self) -> None:
        """Open the questions, parsed before or now; count what the baselines get right."""
        cache = prepared_root_of(self.cfg) / "cloze"
        self._take(load_corpus(self.cfg.data.name, self.data_root, self.settings, cache))
        if "test" not in self.corpus.splits:
            self.spec = replace(self.spec, primary="valid/error")
            say(f"{self.cfg.data.name} has no test questions: its primary metric is valid/error")

    def load_synthetic(self) -> None:
        """Make up questions of the lengths and the vocabulary of CNN with four-sentence passages."""
        self._take(synthetic_corpus(self.cfg.train.batch_size))

    def _take(self, corpus: ClozeCorpus) -> None:
        self.corpus = corpus
        have, need = len(corpus.splits["train"]), self.cfg.train.batch_size
        if have < need:
            raise DataError(f"{have} training questions do not fill train.batch_size={need}: set a smaller batch")
        for split, stored in corpus.splits.items():
            if split != "train":
                questions = (corpus.question(split, row) for row in range(len(stored)))
                self._baselines[split] = baselines(questions, corpus.vocabulary.entities)

    def build_model(self, norm: NormFactory) -> nn.Module:
        """Build the reader with its weights drawn as `task.init` says."""
        model = AttentiveReader(norm, self.settings, len(self.corpus.vocabulary))
        initialise(model, self.settings.init)
        return model

    def batches_per_epoch(self) -> int:
        """Return the number of full batches."""
        return len(self.corpus.splits["train"]) // self.cfg.train.batch_size

    def batch(self, epoch: int, index: int) -> Batch:
        """Return batch `index` of the epoch, its entities under fresh names where they are permuted."""
        cfg = self.settings
        if self._order is None or self._order[0] != epoch:
            lengths = self.corpus.lengths("train")
            order = epoch_order(cfg.batching, lengths, self.cfg.train.batch_size, self.cfg.seed, epoch)
            self._order = (epoch, order)
        relabel = None
        if cfg.entities == "permuted":
            draw = np.random.Generator(np.random.Philox(fold(self.cfg.seed, "entities", epoch, index)))
            relabel = permutation(len(self.corpus.vocabulary), self.corpus.vocabulary.entities, draw)
        rows = self._order[1][index]
        questions = [self.corpus.question("train", int(row)) for row in rows]
        return Batch(make_batch(questions, relabel).to(self.device), weight=len(rows), items=len(rows))

    def loss_sum(self, model: nn.Module, batch: Batch, carry: Any) -> tuple[Tensor, Any]:
        """Return the summed negative log-likelihood of the answers."""
        logits = model(batch.inputs)
        return negative_log_likelihood(logits, batch.inputs.answer, self.settings.loss_eps).sum(), None

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Return error, entity accuracy, loss and the baselines over every question; nothing for a split not there.

        The paper's code averages over full batches and drops the last one; here all questions count.
        """
        if split not in self.corpus.splits:
            return {}
        rows = np.argsort(self.corpus.lengths(split), kind="stable")
        vocabulary, words = self.corpus.vocabulary, self.corpus.vocabulary.words
        names = self.corpus.splits[split].names()
        sums = {"error": 0.0, "entity_accuracy": 0.0, "loss": 0.0}
        lines = [""] * len(rows)
        for start in range(0, len(rows), _EVAL_BATCH):
            picked = rows[start : start + _EVAL_BATCH]
            questions = [self.corpus.question(split, int(row)) for row in picked]
            batch = make_batch(questions).to(self.device)
            scores = score(model(batch), batch, vocabulary.entities, self.settings.loss_eps)
            sums["error"] += (~scores.right_word).sum().item()
            sums["entity_accuracy"] += scores.right_entity.sum().item()
            sums["loss"] += scores.nll.double().sum().item()
            answers = (batch.answer.tolist(), scores.word.tolist(), scores.entity.tolist())
            for row, question, *said in zip(picked, questions, *answers, strict=True):
                said = [words[vocabulary.original(word, question.order)] if word >= 0 else "-" for word in said]
                lines[row] = "\t".join([names[row], *said]) + "\n"
        self._answers[split] = "question\tanswer\tword\tentity\n" + "".join(lines)
        measured = {name: total / len(rows) for name, total in sums.items()}
        counted = {name: self._baselines[split][name] for name in ("max_frequency", "exclusive_frequency")}
        return {f"{split}/{name}": value for name, value in {**measured, **counted}.items()}

    def checksums(self) -> dict[str, str]:
        """Return the archive's checksum."""
        return {"questions": f"sha256:{self.corpus.sha256}"}

    def facts(self) -> dict[str, Any]:
        """Return sizes, what was skipped, how far no reader can come, and what the run is judged by."""
        floors = {f"{split}_error_floor": counted["error_floor"] for split, counted in self._baselines.items()}
        trained = self.batches_per_epoch() * self.cfg.train.batch_size
        dropped = len(self.corpus.splits["train"]) - trained
        left_out = {"train_questions_per_epoch": trained, "train_questions_dropped_per_epoch": dropped}
        return {**self.corpus.facts(), **floors, **left_out, "judged_by": self.spec.primary}

    def files(self) -> dict[str, str]:
        """Return the reader's answer to each question, likeliest word and likeliest entity of the passage."""
        return {f"answers.{split}.tsv": text for split, text in self._answers.items()}
