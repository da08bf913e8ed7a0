"""Beam search over any TranslationModel: batched, with cached states; greedy search is a beam of one.

At every step a sentence's hypotheses and their continuations are ranked by log-probability. Ends of sentence among the
first `beam` are complete translations; the first `beam` others go on. A sentence leaves the batch with `beam` complete
translations or at its longest length, so that no sentence decides how long another is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.data.parallel.batch import BOS, EOS, PAD, UNK
from rmsrepro.tasks.translation.best_tokens import best_tokens
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
    sources: Sequence[Sequence[int]],
    options: SearchConfig,
    beam: int,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return up to `beam` translations of each source, the best first; a source without subwords has the empty one.

    sources: subword ids without EOS. Sentences of similar length are translated together, in any order.
    """
    found = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: len(sources[i]))
    for start in range(0, len(order), options.sentences):
        chosen = order[start : start + options.sentences]
        rows = [torch.tensor([*map(int, sources[i]), EOS]) for i in chosen]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        source = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)
        for i, hypotheses in zip(chosen, beam_search(model, source, lengths, options, beam), strict=True):
            found[i] = hypotheses
    return found


@torch.no_grad()
def beam_search(
    model: TranslationModel, source: Tensor, lengths: Tensor, options: SearchConfig, beam: int
) -> list[list[Hypothesis]]:
    """Return up to `beam` translations of each of the B sentences source [B, S], EOS last, of `lengths` [B]."""
    memory, state = model.encode(source, lengths)
    device, count = source.device, len(source)
    spread = torch.arange(count, device=device).repeat_interleave(beam)
    state = select(state, spread)
    if not model.memory_per_sentence:
        memory = select(memory, spread)
    weight, bias = model.output()
    forbidden = torch.tensor([PAD, BOS, EOS] if options.allow_unknown else [PAD, BOS, EOS, UNK], device=device)
    limits = ((lengths - 1) * options.max_length_factor).long() + options.max_length_extra
    alive = list(range(count))  # the sentences whose rows are still here
    complete: list[list[Hypothesis]] = [[] for _ in range(count)]
    tokens = torch.full((count * beam,), BOS, device=device)
    history = torch.empty(count, beam, 0, dtype=torch.long, device=device)
    # Equal hypotheses would stay equal for ever: only the first of each sentence may be continued at the start.
    totals = torch.full((count, beam), -torch.inf, device=device)
    totals[:, 0] = 0.0
    step = 0
    while alive:
        step += 1
        x, state = model.step(tokens, memory, state)
        logits = F.linear(x, weight, bias).float()
        log_probs, words, end = best_tokens(logits, beam, forbidden, EOS)  # [B * beam, n], the same, [B * beam]
        shape = (len(alive), beam, -1)
        going = (totals.unsqueeze(2) + log_probs.view(shape)).masked_fill((step >= limits)[:, None, None], -torch.inf)
        ending = totals + end.view(shape[:2])
        # Candidates [B, beam * n + beam]: continuations, then ends.
        ranked = torch.cat([going.flatten(1), ending], 1).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
        values, places = ranked.topk(2 * beam, 1)
        ends = places >= going[0].numel()
        ended = ends[:, :beam] & (values[:, :beam] > -torch.inf)
        for row, rank in ended.nonzero().tolist():
            parent = int(places[row, rank]) - going[0].numel()
            log_prob = float(values[row, rank])
            complete[alive[row]].append(
                Hypothesis(
                    tuple(history[row, parent].tolist()), log_prob, log_prob / _penalty(step, options)
                )
            )
        # At most `beam` of the 2 * beam best are ends, so `beam` others are among them: those of the lowest ranks.
        going_on = ends.int().argsort(dim=1, stable=True)[:, :beam]
        totals, places = values.gather(1, going_on), places.gather(1, going_on)
        parents = places // log_probs.shape[1]
        chosen = words.view(len(alive), -1).gather(1, places)
        stay = [
            row
            for row, (sentence, limit) in enumerate(zip(alive, limits.tolist(), strict=True))
            if len(complete[sentence]) < beam and step < limit
        ]
        rows = torch.tensor(stay, dtype=torch.long, device=device)
        flat = (rows.unsqueeze(1) * beam + parents[rows]).flatten()
        state = select(state, flat)
        if len(stay) < len(alive):
            keep = rows if model.memory_per_sentence else (rows[:, None] * beam + torch.arange(beam, device=device)).flatten()
            memory = select(memory, keep)
            alive, limits = [alive[row] for row in stay], limits[rows]
        history = torch.cat([history.flatten(0, 1)[flat].unflatten(0, (-1, beam)), chosen[rows].unsqueeze(2)], 2)
        totals, tokens = totals[rows], chosen[rows].flatten()
    for hypotheses in complete:
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
    nothing = Hypothesis((), -float("inf"), -float("inf"))
    return [hypotheses[:beam] or [nothing] for hypotheses in complete]


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
