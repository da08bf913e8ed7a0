"""Transformer encoder and decoder over packed rows, with a norm at every residual sum.

A stack is a list of branches (attention, feed-forward) around one residual stream, and a list of norms. With the norm
behind (post), branch i reads what norm i - 1 gave, and norm i is taken of the sum: as many norms as branches. With the
norm in front (pre), norm i is what branch i reads, and one more ends the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rmsrepro.layers.attention import CrossAttention, KeysValues, SelfAttention
from rmsrepro.layers.dropout import Dropout
from rmsrepro.layers.packing import Packing
from rmsrepro.layers.residual import add_norm
from rmsrepro.norms.factory import NormFactory

Branch = Callable[[Tensor], Tensor]
#: One layer's keys and values, position by position: [rows that there were then, 2 * D].
Positions = tuple[KeysValues, ...]


@dataclass(frozen=True)
class Cache:
    """The keys and values of all layers at earlier positions."""

    layers: tuple[Positions, ...]


#: A cache, which no reordering of rows moves, and the number of each hypothesis's row at each position: int64 [N, T].
Past = tuple[Cache, Tensor]


@dataclass(frozen=True)
class TransformerShape:
    """Sizes and rates of one stack."""

    dim: int
    ffn: int
    heads: int
    layers: int
    pre_norm: bool = False
    dropout: float = 0.0
    """On what every branch adds to the stream."""
    attention_dropout: float = 0.0
    relu_dropout: float = 0.0


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between, position by position."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.inner = nn.Linear(shape.dim, shape.ffn)
        self.outer = nn.Linear(shape.ffn, shape.dim)
        self.dropout = Dropout(shape.relu_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows [N, D] to rows [N, D]."""
        return self.outer(self.dropout(torch.relu_(self.inner(x))))


class ResidualStream(nn.Module):
    """The norms of a stack, and how its branches add to the stream."""

    def __init__(self, norm: NormFactory, shape: TransformerShape, branches: int) -> None:
        super().__init__()
        self.pre_norm = shape.pre_norm
        self.norms = nn.ModuleList([norm.features(shape.dim) for _ in range(branches + shape.pre_norm)])
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor, branches: Iterable[Branch]) -> Tensor:
        """Send x [N, D] through all branches, each a function of rows [N, D]."""
        norms = iter(self.norms)
        read = next(norms)(x) if self.pre_norm else x
        for norm, branch in zip(norms, branches, strict=True):
            read, added = add_norm(norm, x, self.dropout(branch(read)))
            x = added if self.pre_norm else read
        return read


class EncoderLayer(nn.Module):
    """The branches of one encoder layer."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.attention = SelfAttention(shape.dim, shape.heads, shape.attention_dropout)
        self.feed_forward = FeedForward(shape)

    def branches(self, packing: Packing) -> list[Branch]:
        """Return the branches over the rows of `packing`."""
        return [lambda x: self.attention(x, packing), self.feed_forward]


class Encoder(nn.Module):
    """A stack of encoder layers: two norms each."""

    def __init__(self, norm: NormFactory, shape: TransformerShape) -> None:
        super().__init__()
        layers = [EncoderLayer(shape) for _ in range(shape.layers)]
        self.layers: Iterable[EncoderLayer] = nn.ModuleList(layers)  # pyrefly: ignore[bad-assignment]
        self.stream = ResidualStream(norm, shape, 2 * shape.layers)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]."""
        return self.stream(x, [branch for layer in self.layers for branch in layer.branches(packing)])


class DecoderLayer(nn.Module):
    """The branches of one decoder layer."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.attention = SelfAttention(shape.dim, shape.heads, shape.attention_dropout, causal=True)
        self.cross_attention = CrossAttention(shape.dim, shape.heads, shape.attention_dropout)
        self.feed_forward = FeedForward(shape)

    def branches(self, packing: Packing, memory: KeysValues, sources: Packing) -> list[Branch]:
        """Return the branches over the rows of `packing`, beside the rows of `sources` that `memory` is of."""
        return [
            lambda x: self.attention(x, packing),
            lambda x: self.cross_attention(x, packing, memory, sources),
            self.feed_forward,
        ]

    def step_branches(
        self, past: Positions, rows: Tensor, memory: KeysValues, lengths: Tensor, grown: list[Positions]
    ) -> list[Branch]:
        """Return the branches for the next position alone; what `past` grows to is appended to `grown`."""

        def attention(x: Tensor) -> Tensor:
            y, more = self.attention.step(x, past, rows)
            grown.append(more)
            return y

        return [attention, lambda x: self.cross_attention.step(x, memory, lengths), self.feed_forward]


class Decoder(nn.Module):
    """A stack of decoder layers: three norms each."""

    def __init__(self, norm: NormFactory, shape: TransformerShape) -> None:
        super().__init__()
        self.dim = shape.dim
        layers = [DecoderLayer(shape) for _ in range(shape.layers)]
        self.layers: Iterable[DecoderLayer] = nn.ModuleList(layers)  # pyrefly: ignore[bad-assignment]
        self.stream = ResidualStream(norm, shape, 3 * shape.layers)

    def memory(self, encoded: Tensor) -> list[KeysValues]:
        """Return what each layer attends to, given the encoder's rows [M, D]: rows [M, 2 * D]."""
        return [layer.cross_attention.memory(encoded) for layer in self.layers]

    def forward(self, x: Tensor, packing: Packing, memory: list[KeysValues], sources: Packing) -> Tensor:
        """Map the rows x [N, D] of `packing` to rows [N, D]; `memory` is of the rows of `sources`."""
        stacked = zip(self.layers, memory, strict=True)
        return self.stream(x, [branch for layer, kv in stacked for branch in layer.branches(packing, kv, sources)])

    def no_past(self, rows: int, device: torch.device) -> Past:
        """Return the past before the first position of `rows` sequences."""
        return Cache(tuple(() for _ in self.layers)), torch.empty(rows, 0, dtype=torch.int64, device=device)

    def step(self, x: Tensor, past: Past, memory: list[KeysValues], lengths: Tensor) -> tuple[Tensor, Past]:
        """Map the next position x [N, D] to [N, D], and the past that includes it.

        N / B rows, side by side, belong to each of the B sequences of `lengths` [B] in `memory`, here padded.
        """
        cache, rows = past
        before = sum(map(len, cache.layers[0])) if cache.layers else 0
        new = torch.arange(before, before + len(x), device=x.device)
        rows = torch.cat([rows, new.unsqueeze(1)], 1)
        grown: list[Positions] = []
        stacked = zip(self.layers, cache.layers, memory, strict=True)
        branches = [b for layer, old, kv in stacked for b in layer.step_branches(old, rows, kv, lengths, grown)]
        return self.stream(x, branches), (Cache(tuple(grown)), rows)
