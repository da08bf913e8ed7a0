"""Order-embedding (Vendrov et al. 2016): images and sentences as points of the positive orthant.

Norms stand inside the sentences' GRU, on the projections of words and state (the paper's section 2.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmsrepro.layers import NormGRU
from rmsrepro.layers.options import gru_options
from rmsrepro.layers.weights import copy_weight
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.order_embedding.config import Config
from rmsrepro.tasks.order_embedding.score import cosine_distance, order_violation
from rmsrepro.tasks.order_embedding.sentences import last_states

#: Embeddings and input weights start uniform within this (order-embedding's code).
_INIT_RANGE = 0.1


class OrderEmbedding(nn.Module):
    """A linear map of image features, and a GRU over words; both normalised to length one."""

    def __init__(self, norm: NormFactory, cfg: Config, vocabulary: int, width: int) -> None:
        super().__init__()
        self.absolute, self.score = cfg.absolute, cfg.score
        self.image = nn.Linear(width, cfg.hidden)
        self.embedding = nn.Embedding(vocabulary, cfg.word)
        cell = replace(gru_options("order_embedding"), hoist_input=cfg.norm_x == "hoisted")
        self.gru = NormGRU(cfg.word, cfg.hidden, norm=norm, cell=cell)
        self.dropout_features = nn.Dropout(cfg.dropout_features)
        self.dropout_words = nn.Dropout(cfg.dropout_words)
        self.dropout_state = nn.Dropout(cfg.dropout_state)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights as order-embedding's code does: Glorot, uniform, and orthogonal for each gate of the state."""
        nn.init.xavier_uniform_(self.image.weight)
        nn.init.zeros_(self.image.bias)
        self.embedding.weight.uniform_(-_INIT_RANGE, _INIT_RANGE)
        hidden = self.gru.hidden_size
        blocks = [nn.init.orthogonal_(torch.empty(hidden, hidden)) for _ in range(3)]
        self._set_weight("ih", torch.empty(3 * hidden, self.gru.input_size).uniform_(-_INIT_RANGE, _INIT_RANGE))
        self._set_weight("hh", torch.cat(blocks))
        nn.init.zeros_(self.gru.get_parameter("bias_ih_l0"))

    def _set_weight(self, kind: str, weight: Tensor) -> None:
        holder = getattr(self.gru, f"linear_{kind}_l0", None)
        if holder is not None:
            copy_weight(holder, weight)
        else:
            self.gru.get_parameter(f"weight_{kind}_l0").copy_(weight)

    def forward(self, images: Tensor, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the points of `images` [B, width] and of sentences `tokens` [T, B]: [B, D] each.

        lengths [B] on the CPU, the end of sentence counted, longest first.
        """
        return self.embed_images(images), self.embed_sentences(tokens, lengths)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return the points [B, D] of images [B, width]."""
        return self._point(self.image(self.dropout_features(images)))

    def embed_sentences(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the points [B, D] of sentences [T, B], of which the longest stand first."""
        words = self.dropout_words(self.embedding(tokens))
        return self._point(self.dropout_state(last_states(self.gru, words, lengths)))

    def errors(self, sentences: Tensor, images: Tensor) -> Tensor:
        """Return the error [S, I] of points of sentences [S, D] with points of images [I, D]; less is better."""
        return self.score_function(self.score)(sentences, images)

    @staticmethod
    def score_function(score: str) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function that compares points of sentences [S, D] with points of images [I, D]."""
        return order_violation if score == "order" else cosine_distance

    def _point(self, x: Tensor) -> Tensor:
        # Not under autocast: differences of small numbers decide the ranking.
        x = F.normalize(x.float(), dim=-1)
        return x.abs() if self.absolute else x
