"""The tied LSTM language model of pytorch/examples word_language_model, with norms inside the LSTM.

The paper has no language model; the norms stand where its other LSTM, the attentive reader's, has them: on the
input's and the state's projections, and on the cell state on its way to the output.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.layers import NormLSTM
from rmsrepro.layers.linear_cross_entropy import Workspace, linear_cross_entropy
from rmsrepro.layers.options import LSTMOptions
from rmsrepro.layers.tied_embedding import tied_embedding
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.lstm_lm.config import Config

State = tuple[Tensor, Tensor]

#: Tokens whose logits are held at once while evaluating.
_EVAL_TOKENS = 700
#: Embeddings start uniform within this (pytorch/examples).
_INIT_RANGE = 0.1


class TiedLSTM(nn.Module):
    """Embedding, dropout, LSTM, dropout, softmax; the softmax's matrix is the embedding (Press & Wolf 2017)."""

    def __init__(self, norm: NormFactory, cfg: Config, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(vocabulary, cfg.hidden).uniform_(-_INIT_RANGE, _INIT_RANGE))
        self.output_bias = nn.Parameter(torch.zeros(vocabulary))
        cell = LSTMOptions(
            norm_input=cfg.norm_input,
            norm_hidden=cfg.norm_hidden,
            norm_cell=cfg.norm_cell,
            # A stream has no first step: statistics by step end with the piece that training knows.
            max_steps=cfg.bptt,
        )
        self.lstm = NormLSTM(cfg.hidden, cfg.hidden, cfg.layers, dropout=cfg.dropout, norm=norm, cell=cell)
        self.dropout = nn.Dropout(cfg.dropout)
        self._workspace = Workspace()

    def forward(self, tokens: Tensor, targets: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return the cross-entropy summed over `targets`, and the state after the last token.

        tokens and targets [T, B] int64; state (h, c), each [layers, B, hidden], or None for zeros.
        """
        x, embedding = tied_embedding(tokens, self.embedding)
        y, state = self.lstm(self.dropout(x), state)
        rows = self.dropout(y).flatten(0, 1)
        return linear_cross_entropy(rows, embedding, self.output_bias, targets.flatten(), self._workspace), state

    def stream_loss(self, ids: Tensor) -> Tensor:
        """Return the cross-entropy summed over every token of a stream [N] but the first, in float64.

        One sequence with the state carried from end to end: no batch size enters.
        """
        total = torch.zeros((), dtype=torch.float64, device=ids.device)
        state = None
        for start in range(0, len(ids) - 1, _EVAL_TOKENS):
            piece = ids[start : start + _EVAL_TOKENS + 1].unsqueeze(1)
            loss, state = self(piece[:-1], piece[1:], state)
            total += loss.double()
        return total
