"""RNNSearch as Nematus has it, with the norm at 22 sites (paper section 2.1).

Encoder: 8 (two directions, each input and state to gates and candidate); first state: 1; decoder cells: 8;
attention: 2; deep output: 3.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.layers import NormGRU
from rmsrepro.layers.additive_attention import Memory
from rmsrepro.layers.conditional_gru import ConditionalGRU
from rmsrepro.layers.dropout import Dropout
from rmsrepro.layers.packing import length_mask, take_rows
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.rnnsearch.codebases import CODEBASES
from rmsrepro.tasks.rnnsearch.config import Config
from rmsrepro.tasks.rnnsearch.initialisation import initialise
from rmsrepro.tasks.translation.model import State, TranslationModel


class DeepOutput(nn.Module):
    """What the softmax layer reads: tanh of three normalised linear maps, summed."""

    def __init__(self, embedding: int, hidden: int, context: int, norm: NormFactory) -> None:
        super().__init__()
        self.embedding = norm.linear(embedding, embedding)
        self.state = norm.linear(hidden, embedding)
        self.context = norm.linear(context, embedding)

    def forward(self, embedded: Tensor, state: Tensor, context: Tensor) -> Tensor:
        """Return features [N, E] from the token before, the state and the context: [N, E], [N, H], [N, C]."""
        return torch.tanh(self.embedding(embedded) + self.state(state) + self.context(context))


class RNNSearch(TranslationModel):
    """A bidirectional GRU, additive attention, a conditional GRU and a deep output.

    The paper names no dropout; `dropout` acts on embeddings, encoder states and the softmax layer's input.
    """

    def __init__(self, norm: NormFactory, cfg: Config, vocabulary: int) -> None:
        super().__init__()
        codebase, embedding, hidden = CODEBASES[cfg.codebase], cfg.embedding, cfg.hidden
        context = 2 * hidden
        self.source_embedding = nn.Parameter(torch.empty(vocabulary, embedding))
        self.target_embedding = nn.Parameter(torch.empty(vocabulary, embedding))
        self.encoder = NormGRU(embedding, hidden, bidirectional=True, norm=norm, cell=codebase.encoder)
        self.first_state = norm.linear(context, hidden)
        self.decoder = ConditionalGRU(
            embedding, hidden, context, context, norm=norm, first=codebase.first, second=codebase.second
        )
        self.deep_output = DeepOutput(embedding, hidden, context, norm)
        self.output_weight = nn.Parameter(torch.empty(vocabulary, embedding))
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))
        self.dropout = Dropout(cfg.dropout)
        initialise(self, cfg.init_mean, codebase.unit_gains)

    def output(self) -> tuple[Tensor, Tensor]:
        """Return the softmax layer's weight [V, E] and bias [V]."""
        return self.output_weight, self.output_bias

    def features(self, batch: PairBatch) -> Tensor:
        """Return what the softmax layer reads at every position of `batch.target_mask`, row by row: [N, E]."""
        with full_precision_on_cpu(batch.source):
            _, x, states, contexts = self._decode(batch)
            sentence, step = batch.target_mask.nonzero(as_tuple=True)
            places = step * len(batch.target_in) + sentence
            return self.dropout(self.deep_output(*(take_rows(p.flatten(0, 1), places) for p in (x, states, contexts))))

    def states_before(self, batch: PairBatch) -> Tensor:
        """Return the state that every step of the decoder starts from when it reads `batch.target_in`: [T, B, H]."""
        h, _, states, _ = self._decode(batch)
        return torch.cat([h.unsqueeze(0), states[:-1]])

    def _decode(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the first state [B, H], then embedded tokens, states and contexts, each [T, B, ...]."""
        memory, h = self._remember(batch.source, batch.source_lengths)
        x = self.dropout(F.embedding(batch.target_in.t(), self.target_embedding))
        return h, x, *self.decoder(x, h, memory, batch.target_mask.t())

    def _remember(self, source: Tensor, lengths: Tensor) -> tuple[Memory, Tensor]:
        """Return what the decoder attends to and its first state [B, H], a map of the mean encoder state."""
        mask = length_mask(lengths, source.shape[1]).t()
        x = self.dropout(F.embedding(source.t(), self.source_embedding))
        y, _ = self.encoder(x, mask=mask)
        context = self.dropout(y.masked_fill(~mask.unsqueeze(-1), 0.0).transpose(0, 1).contiguous())
        mean = context.sum(1) / lengths.unsqueeze(1)
        return self.decoder.attention.memory(context, lengths), torch.tanh(self.first_state(mean))

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[State, State]:
        """Return the memory of every sentence, and the decoder's state before its first token."""
        with full_precision_on_cpu(source):
            memory, h = self._remember(source, source_lengths)
            panels = None if torch.is_grad_enabled() else self.decoder.packed(h, memory)
        return (*memory, panels), (h, torch.zeros_like(source_lengths))

    def step(self, tokens: Tensor, memory: State, state: State) -> tuple[Tensor, State]:
        """Return the features [N, E] after `tokens` [N], and the state that includes them."""
        (*attended, panels), (h, steps) = memory, state
        with full_precision_on_cpu(tokens):
            x = F.embedding(tokens, self.target_embedding)
            number = int(steps[0]) if self.decoder.cell().by_step and len(steps) else 0
            states, contexts = self.decoder(x.unsqueeze(0), h, Memory(*attended), first_step=number, panels=panels)
            return self.deep_output(x, states[0], contexts[0]), (states[0], steps + 1)


def full_precision_on_cpu(given: Tensor) -> AbstractContextManager[object]:
    """On a CPU autocast serves the softmax layer alone: the fused time loops are of float32, and faster than others."""
    return torch.autocast("cpu", enabled=False) if given.is_cpu else nullcontext()
