"""Translation behind the task contract: batches, loss, search and scores, whatever model translates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from rmsrepro.data.parallel.batching import LengthBuckets, collate
from rmsrepro.data.parallel.data import EncodedPairs, EvaluationSet, PairOptions, load_pairs
from rmsrepro.data.progress import say
from rmsrepro.tasks import base
from rmsrepro.tasks.base import Batch
from rmsrepro.tasks.data_root import prepared_root_of
from rmsrepro.tasks.translation.config import TranslationConfig
from rmsrepro.tasks.translation.loss import LIKELIHOOD, Objective
from rmsrepro.tasks.translation.model import TranslationModel
from rmsrepro.tasks.translation.scoring import Scores, score
from rmsrepro.tasks.translation.search import Hypothesis, translate
from rmsrepro.tasks.translation.synthetic import synthetic_pairs

#: Positions that the likelihood is computed of at once.
_EVAL_TOKENS = 4096


@dataclass(frozen=True)
class Translated:
    """One evaluation set as the model last translated it."""

    found: list[list[Hypothesis]]
    texts: list[list[str]]
    """The same as text, for each sentence the best first."""
    references: list[str]
    scores: Scores


class TranslationTask(base.Task):
    """Sentences from one language into another, judged by BLEU. A task of this kind names itself and its model."""

    @property
    def settings(self) -> TranslationConfig:
        """The task's own settings."""
        assert isinstance(self.cfg.task, TranslationConfig)
        return self.cfg.task

    def load(self) -> None:
        """Read, encode and bucket the sentence pairs."""
        options = PairOptions(**{option.name: getattr(self.settings, option.name) for option in fields(PairOptions)})
        cache = prepared_root_of(self.cfg)
        self.data = load_pairs(self.cfg.data.name, self.data_root, options, cache)
        if not self.data.tests:
            self.spec = replace(self.spec, primary="valid/bleu")
            say(f"{self.cfg.data.name} has no test set here: this run's primary metric is valid/bleu")
        self.translated: dict[str, Translated] = {}
        self._train_on(self.data.train, len(self.data.vocabulary))

    def load_synthetic(self) -> None:
        """Make up pairs of random subwords, as long as WMT14's."""
        self._train_on(synthetic_pairs(self.settings.vocabulary, self.settings.max_length), self.settings.vocabulary)

    def _train_on(self, pairs: EncodedPairs, vocabulary: int) -> None:
        tokens = self.settings.batch_tokens
        sentences = self.cfg.train.batch_size if tokens is None else None
        self.vocabulary_size, self._pairs = vocabulary, pairs
        self._buckets = LengthBuckets(
            pairs.source_lengths, pairs.target_lengths, tokens=tokens, sentences=sentences, seed=self.cfg.seed
        )
        self._objective = Objective.of(self.settings)

    def batches_per_epoch(self) -> int:
        """Return how many batches hold every pair once."""
        return len(self._buckets)

    def batch(self, epoch: int, index: int) -> Batch:
        """Return sentences of similar length; throughput counts target subwords, their ends too, no padding."""
        chosen = self._buckets.indices(epoch, index)
        tokens = int(self._pairs.target_lengths[chosen].sum())
        pairs = collate(self._pairs, chosen, self.device)
        return Batch(pairs, weight=self._objective.weight(len(chosen), tokens), items=tokens)

    def loss_sum(self, model: nn.Module, batch: Batch, carry: Any) -> tuple[Tensor, Any]:
        """Return the summed training loss; nothing is carried on.

        Sums over tokens that are divided by sentences grow with their length, so rows also hold `train/token_loss`.
        """
        total = model(batch.inputs, self._objective)
        if self._objective.over == "sentence":
            batch.sums["token_loss"] = (total.detach(), batch.items)
        return total, None

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Translate and score the validation set, or all test sets; `test/...` is the first of them.

        The loss is the negative log-likelihood per token, ends counted, without smoothing.
        """
        assert isinstance(model, TranslationModel)
        greedy = split == "valid" and self.settings.search.valid == "greedy"
        metrics: dict[str, float] = {}
        for sentences in [self.data.valid] if split == "valid" else self.data.tests.values():
            scores = self._translate(model, sentences, beam=1 if greedy else self.settings.search.beam)
            found = {"bleu": scores.bleu, "chrf": scores.chrf, "loss": self._likelihood(model, sentences.pairs)}
            names = [split] if split == "valid" else [sentences.name] if metrics else [split, sentences.name]
            metrics |= {f"{name}/{metric}": value for name in names for metric, value in found.items()}
        return metrics

    def _translate(self, model: TranslationModel, sentences: EvaluationSet, beam: int) -> Scores:
        sources = [sentences.pairs.pair(i)[0] for i in range(len(sentences))]
        found = translate(model, sources, self.settings.search, beam, self.device)
        decode = self.data.vocabulary.decode
        kept = [hypotheses[: self.settings.search.n_best] for hypotheses in found]
        texts = [[decode(hypothesis.tokens) for hypothesis in hypotheses] for hypotheses in kept]
        best = [candidates[0] for candidates in texts]
        scores = score(best, sentences.references, tokenized=self.data.tokenized, name=sentences.name)
        self.translated[sentences.name] = Translated(kept, texts, sentences.references, scores)
        return scores

    def _likelihood(self, model: TranslationModel, pairs: EncodedPairs) -> float:
        buckets = LengthBuckets(pairs.source_lengths, pairs.target_lengths, tokens=_EVAL_TOKENS, seed=0)
        batches = (collate(pairs, buckets.indices(0, i), self.device) for i in range(len(buckets)))
        return sum(model(batch, LIKELIHOOD).item() for batch in batches) / int(pairs.target_lengths.sum())

    def checksums(self) -> dict[str, str]:
        """Return the checksums of texts and vocabulary."""
        return self.data.checksums()

    def facts(self) -> dict[str, Any]:
        """Return sizes, what was dropped, how scores were made, and what the run is judged by."""
        return {
            **self.data.facts(),
            "train_pairs": len(self._pairs),
            "padding_share": self._buckets.padding_share,
            "judged_by": self.spec.primary,
            "scored_text": "as it is: tokenised" if self.data.tokenized else "detokenised",
            "scores": {name: translated.scores.facts() for name, translated in self.translated.items()},
        }

    def files(self) -> dict[str, str]:
        """Return by set translations and references, one line a sentence, and the usual n-best form with scores."""
        files = {}
        for name, translated in self.translated.items():
            files[f"translations.{name}.txt"] = "".join(f"{texts[0]}\n" for texts in translated.texts)
            files[f"references.{name}.txt"] = "".join(f"{text}\n" for text in translated.references)
            files[f"nbest.{name}.txt"] = "".join(
                f"{i} ||| {text} ||| log_prob={hypothesis.log_prob:.6f} ||| {hypothesis.score:.6f}\n"
                for i, (hypotheses, texts) in enumerate(zip(translated.found, translated.texts, strict=True))
                for hypothesis, text in zip(hypotheses, texts, strict=True)
            )
        return files
