"""Beam search over any TranslationModel: batched, with cached states; greedy search is a beam of one.

At every step a sentence's hypotheses and their continuations are ranked by log-probability. Ends of sentence among the
first `beam` are complete translations; the first `beam` others go on. A sentence leaves the batch with `beam` complete
translations, or with the `n_best` that are asked for once no hypothesis that goes on is ahead of them under the length
penalty (without one that loses nothing), or at its longest length. No sentence decides how long another is searched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmsrepro.data.parallel.batch import BOS, EOS, PAD, UNK
from rmsrepro.layers.likeliest import Likeliest
from rmsrepro.tasks.translation.config import SearchConfig
from rmsrepro.tasks.translation.model import State, TranslationModel


@dataclass(frozen=True)
class Hypothesis:
    """One translation."""

    tokens: tuple[int, ...]
    """Its subwords, without BOS and EOS."""
    log_prob: float
    """The sum of its log-probabilities, EOS counted."""
    score: float
    """`log_prob` under the length penalty: what translations are ranked by."""


@torch.no_grad()
def translate(
    model: TranslationModel,
    sources: Sequence[Sequence[int] | np.ndarray],
    options: SearchConfig,
    beam: int,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return up to `beam` translations of each source, the best first; a source without subwords has the empty one.

    sources: subword ids without EOS. Sentences of similar length are translated together, in any order.
    """
    found = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
    forbidden = [PAD, BOS, EOS] if options.allow_unknown else [PAD, BOS, EOS, UNK]  # ends are counted apart
    likeliest = Likeliest(*model.output(), forbidden=forbidden, asked=EOS)
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: len(sources[i]))
    for start in range(0, len(order), options.sentences):
        chosen = order[start : start + options.sentences]
        rows = [torch.tensor([*map(int, sources[i]), EOS]) for i in chosen]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)
        beams = _Beams(model, likeliest, source, lengths, options, beam)
        while beams.sentences:
            beams.advance()
        for i, hypotheses in zip(chosen, beams.best(), strict=True):
            found[i] = hypotheses
    return found


class _Beams:
    """The hypotheses of those of B sentences that are still searched: `width` rows for each, side by side.

    The width is 1 before the first token, as equal hypotheses would stay equal for ever; after it, `beam` or as many
    continuations as there are.
    """

    def __init__(
        self,
        model: TranslationModel,
        likeliest: Likeliest,
        source: Tensor,
        lengths: Tensor,
        options: SearchConfig,
        beam: int,
    ) -> None:
        """source [B, S], EOS last, of `lengths` [B]."""
        self.model, self.likeliest, self.options, self.beam = model, likeliest, options, beam
        self.sentences = list(range(len(source)))
        self.complete: list[list[Hypothesis]] = [[] for _ in self.sentences]
        self.limits = [
            min(int((length - 1) * options.max_length_factor) + options.max_length_extra, options.max_length)
            for length in lengths.tolist()
        ]
        self.memory, self.state = model.encode(source, lengths)
        self.tokens = torch.full_like(lengths, BOS)
        self.history = self.tokens.new_empty(len(source), 0)
        self.totals = torch.zeros(len(source), 1, device=source.device)  # [B, width]

    def advance(self) -> None:
        """Add a token to every hypothesis; set aside what is complete, and drop the sentences that are done."""
        x, self.state = self.model.step(self.tokens, self.memory, self.state)
        log_probs, words, end = self.likeliest(x, self.beam)
        grid = (*self.totals.shape, -1)
        going = self.totals.unsqueeze(2) + log_probs.view(grid)  # [B, width, n]
        length = self.history.shape[1] + 1
        at_limit = [row for row, sentence in enumerate(self.sentences) if length >= self.limits[sentence]]
        if at_limit:
            going[at_limit] = -torch.inf
        ending = self.totals + end.view(grid[:2])
        # A number that is none is no candidate; the columns are continuations, then ends.
        ranked = torch.cat([going.flatten(1), ending], 1).nan_to_num(-torch.inf, -torch.inf, -torch.inf)
        values, places = ranked.topk(min(2 * self.beam, ranked.shape[1]), 1)
        self._set_aside(values[:, : self.beam], places[:, : self.beam] - going[0].numel(), length)
        # As many ends are among these as there are hypotheses: others are left, and those of the best ranks go on.
        others = (places >= going[0].numel()).int().argsort(dim=1, stable=True)[:, : min(self.beam, going[0].numel())]
        places = places.gather(1, others)
        self._go_on(
            parents=places // going.shape[2],
            tokens=words.view(grid[0], -1).gather(1, places),
            totals=values.gather(1, others),
            length=length,
        )

    def _set_aside(self, values: Tensor, parents: Tensor, length: int) -> None:
        """Note the complete translations among the best candidates [B, beam]: those with a parent from 0 on."""
        penalty = _penalty(length, self.options)
        for row, rank in ((parents >= 0) & (values > -torch.inf)).nonzero().tolist():
            tokens = self.history[row * self.totals.shape[1] + int(parents[row, rank])]
            log_prob = float(values[row, rank])
            hypothesis = Hypothesis(tuple(tokens.tolist()), log_prob, log_prob / penalty)
            self.complete[self.sentences[row]].append(hypothesis)

    def _go_on(self, parents: Tensor, tokens: Tensor, totals: Tensor, length: int) -> None:
        """Make the hypotheses [B, new width] from their parents, of the sentences that are not done."""
        ahead = (totals[:, 0] / _penalty(length, self.options)).tolist()
        stay = [row for row, score in enumerate(ahead) if not self._is_done(self.sentences[row], score, length)]
        rows = torch.tensor(stay, dtype=torch.long, device=tokens.device)
        if len(stay) < len(self.sentences):
            self.memory = select(self.memory, rows)
            self.sentences = [self.sentences[row] for row in stay]
            parents, tokens, totals = parents[rows], tokens[rows], totals[rows]
        from_rows = (rows.unsqueeze(1) * self.totals.shape[1] + parents).flatten()
        self.state = select(self.state, from_rows)
        self.tokens, self.totals = tokens.flatten(), totals
        self.history = torch.cat([self.history[from_rows], self.tokens.unsqueeze(1)], 1)

    def _is_done(self, sentence: int, ahead: float, length: int) -> bool:
        """Say whether the search of a sentence ends, `ahead` being the score of the best hypothesis that goes on."""
        complete, wanted = self.complete[sentence], self.options.n_best
        if len(complete) >= self.beam or length >= self.limits[sentence]:
            return True
        return len(complete) >= wanted and sorted(h.score for h in complete)[-wanted] >= ahead

    def best(self) -> list[list[Hypothesis]]:
        """Return up to `beam` translations of each sentence; where a broken model gave none, an empty one."""
        nothing = Hypothesis((), -math.inf, -math.inf)
        ranked = (sorted(found, key=lambda hypothesis: -hypothesis.score) for found in self.complete)
        return [hypotheses[: self.beam] or [nothing] for hypotheses in ranked]


def select(state: State, rows: Tensor) -> State:
    """Return the state with only `rows` [N] of every tensor, in that order."""
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    if isinstance(state, dict):
        return {key: select(part, rows) for key, part in state.items()}
    if isinstance(state, list | tuple):
        return type(state)([select(part, rows) for part in state])
    return state


def _penalty(length: int, options: SearchConfig) -> float:
    """Return what the log-probability of `length` subwords, EOS counted, is divided by."""
    if options.length_penalty == "none":
        return 1.0
    return (length if options.length_penalty == "length" else (5 + length) / 6) ** options.alpha
