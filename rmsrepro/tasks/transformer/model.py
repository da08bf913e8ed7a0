"""The encoder-decoder Transformer in the form of the paper's code base (paper section 2.2).

Norms behind every residual sum (30 with six layers on either side), embeddings times the root of their width and a
learned bias, sinusoidal positions, the target's embedding for the softmax too.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.layers.dropout import Dropout
from rmsrepro.layers.packing import Packing
from rmsrepro.layers.positions import SinusoidalPositions
from rmsrepro.layers.transformer import Decoder, Encoder, TransformerShape
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.transformer.config import Config
from rmsrepro.tasks.translation.model import State, TranslationModel


class Embedding(nn.Module):
    """Token embeddings times sqrt(D), plus a learned bias and the positions."""

    def __init__(self, vocabulary: int, dim: int, dropout: float, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, dim).normal_(0.0, dim**-0.5))
        self.register_parameter("bias", nn.Parameter(torch.zeros(dim)) if bias else None)
        self.positions = SinusoidalPositions(dim)
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, places: Tensor, steps: int) -> Tensor:
        """Return the rows [N, D] of tokens `ids` [N] at `places` [N], all below `steps`."""
        table = self.positions(steps, self.weight)
        if self.bias is not None:
            table = table + self.bias
        x = F.embedding(ids, self.weight) * math.sqrt(self.weight.shape[1]) + F.embedding(places, table)
        return self.dropout(x)


class Transformer(TranslationModel):
    """Source embedding, encoder, target embedding, decoder, softmax."""

    def __init__(self, norm: NormFactory, cfg: Config, vocabulary: int) -> None:
        super().__init__()

        def shape(layers: int) -> TransformerShape:
            return TransformerShape(
                cfg.dim,
                cfg.ffn,
                cfg.heads,
                layers,
                pre_norm=cfg.placement == "pre",
                dropout=cfg.dropout,
                attention_dropout=cfg.attention_dropout,
                relu_dropout=cfg.relu_dropout,
            )

        def embedding() -> Embedding:
            return Embedding(vocabulary, cfg.dim, cfg.dropout, bias=cfg.embedding_bias)

        self.encoder = Encoder(norm, shape(cfg.encoder_layers))
        self.decoder = Decoder(norm, shape(cfg.decoder_layers))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        self.target_embedding = embedding()
        self.source_embedding = self.target_embedding if cfg.share_embeddings == "all" else embedding()
        own_output = cfg.share_embeddings == "none"
        self.output_weight = nn.Parameter(torch.empty_like(self.target_embedding.weight)) if own_output else None
        if self.output_weight is not None:
            nn.init.xavier_uniform_(self.output_weight)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary)) if cfg.output_bias else None

    def output(self) -> tuple[Tensor, Tensor | None]:
        """Return the softmax layer's weight [V, D] and bias [V], None where it has none."""
        weight = self.target_embedding.weight if self.output_weight is None else self.output_weight
        return weight, self.output_bias

    def features(self, batch: PairBatch) -> Tensor:
        """Return what the softmax layer reads at every position of `batch.target_mask`, row by row: [N, D]."""
        memory, sources = self._remember(batch.source, batch.source_lengths)
        packing = Packing.of(batch.target_lengths, batch.target_in.shape[1])
        return self.decoder(_embedded(self.target_embedding, batch.target_in, packing), packing, memory, sources)

    def _remember(self, source: Tensor, lengths: Tensor) -> tuple[list[Tensor], Packing]:
        packing = Packing.of(lengths, source.shape[1])
        encoded = self.encoder(_embedded(self.source_embedding, source, packing), packing)
        return self.decoder.memory(encoded), packing

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[State, State]:
        """Return each layer's keys and values of every sentence, and the decoder's empty past."""
        memory, packing = self._remember(source, source_lengths)
        padded = [packing.padded(rows) for rows in memory]
        return (padded, source_lengths), self.decoder.no_past(len(source), source.device)

    def step(self, tokens: Tensor, memory: State, state: State) -> tuple[Tensor, State]:
        """Return the features [N, D] after `tokens` [N], and the past that includes them."""
        place = state[1].shape[1]
        x = self.target_embedding(tokens, torch.full_like(tokens, place), place + 1)
        return self.decoder.step(x, state, *memory)


def _embedded(embedding: Embedding, ids: Tensor, packing: Packing) -> Tensor:
    steps = ids.shape[1]
    places = torch.arange(steps, device=ids.device).expand_as(ids)
    return embedding(packing.rows(ids), packing.rows(places), steps)
