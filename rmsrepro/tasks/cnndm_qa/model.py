"""The bidirectional attentive reader (Hermann et al. 2015) as the paper's code base has it (section 2.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rmsrepro.layers import NormLSTM
from rmsrepro.layers.options import LSTM_PRESETS
from rmsrepro.norms.factory import NormFactory
from rmsrepro.tasks.cnndm_qa.batch import ClozeBatch
from rmsrepro.tasks.cnndm_qa.config import Config
from rmsrepro.tasks.cnndm_qa.terms import Term


class Encoder(nn.Module):
    """A bidirectional LSTM whose first hidden state is learned, one vector for each direction; its cell starts at 0."""

    def __init__(self, norm: NormFactory, cfg: Config) -> None:
        super().__init__()
        cell = LSTM_PRESETS["attentive_reader"] | {"gain_init": cfg.gain_init, "max_steps": cfg.statistics_steps}
        self.lstm = NormLSTM(cfg.hidden, cfg.hidden, bidirectional=True, norm=norm, cell=cell)
        self.h0 = nn.Parameter(torch.zeros(2, cfg.hidden)) if cfg.learn_h0 else None

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs [T, B, 2H] for `x` [T, B, H], and both directions' last states side by side [B, 2H].

        Behind a sequence's end the outputs mean nothing.
        """
        state = None
        if self.h0 is not None:
            h0 = self.h0.unsqueeze(1).expand(-1, x.shape[1], -1).contiguous()
            state = (h0, torch.zeros_like(h0))
        y, (h, _) = self.lstm(x, state, lengths=lengths)
        return y, torch.cat([h[0], h[1]], dim=-1)


class AttentiveReader(nn.Module):
    """Attend over a passage with a question, and name the word that fills the gap.

    m_t = tanh(W_d d_t + W_q q + s_t);  s_t = (S d_t) . (S q);  a = softmax(v . m);  r = sum of a_t d_t
    g = tanh(W_r r + W_g q + W_m mean(d));  logits = W g, over the whole vocabulary

    With `read_out=attention_sum` a word's probability is the attention that its places in the passage have together
    (Kadlec et al. 2016), and nothing behind the attention is built.

    `norm_sites=lstm` normalises inside the LSTMs only. `everywhere` normalises each matrix term of both tanh too
    (Cooijmans et al. 2016, BN-everywhere), not the scalar s_t.
    """

    def __init__(self, norm: NormFactory, cfg: Config, vocabulary: int) -> None:
        super().__init__()
        hidden, both = cfg.hidden, 2 * cfg.hidden
        self.embedding = nn.Parameter(torch.empty(vocabulary, hidden).uniform_(-0.1, 0.1))
        self.dropout = nn.Dropout(cfg.dropout)
        self.passage_encoder, self.question_encoder = Encoder(norm, cfg), Encoder(norm, cfg)
        inner = norm if cfg.norm_sites == "everywhere" else None
        gain = cfg.gain_init
        self.attend_passage = Term(both, hidden, inner, gain, bias=True)
        self.attend_question = Term(both, hidden, inner, gain)
        self.similarity = nn.Parameter(torch.empty(both, both)) if cfg.similarity else None
        self.attention = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.vocabulary, self.sums_attention = vocabulary, cfg.read_out == "attention_sum"
        if self.sums_attention:
            return
        self.read_out = Term(both, hidden, inner, gain)
        self.question_out = Term(both, hidden, inner, gain, bias=True)
        self.mean_out = Term(both, hidden, inner, gain) if cfg.skip_passage else None
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, batch: ClozeBatch) -> Tensor:
        """Return the logits [B, V] of the missing word."""
        d, _ = self.passage_encoder(self._embed(batch.passage), batch.passage_lengths)
        _, q = self.question_encoder(self._embed(batch.question), batch.question_lengths)
        steps = torch.arange(d.shape[0], device=d.device)
        mask = steps[:, None] < batch.passage_lengths  # [T, B]
        d = d.masked_fill(~mask.unsqueeze(-1), 0.0)
        weights = self._scores(d, q, mask).masked_fill(~mask, -math.inf).softmax(0)
        if self.sums_attention:
            return attention_sum(weights, batch.passage, self.vocabulary)
        read = torch.einsum("tb,tbd->bd", weights, d)
        g = self.read_out(read) + self.question_out(q)
        if self.mean_out is not None:
            g = g + self.mean_out(d.sum(0) / batch.passage_lengths.unsqueeze(1))
        return self.output(self.dropout(g.tanh()))

    def _embed(self, words: Tensor) -> Tensor:
        return self.dropout(nn.functional.embedding(words, self.embedding))

    def _scores(self, d: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        """Return how well each word of the passage fits the question, [T, B]."""
        m = self.attend_passage(d, mask) + self.attend_question(q)
        if self.similarity is not None:
            # (S d) . (S q) = d . (S^T S q): one small product for each question instead of one for each word.
            asked = q @ self.similarity.t() @ self.similarity
            m = m + torch.einsum("tbd,bd->tb", d, asked).unsqueeze(-1)
        return m.tanh() @ self.attention


def attention_sum(weights: Tensor, passage: Tensor, vocabulary: int) -> Tensor:
    """Return the logarithm of each word's attention, summed over its places: [B, V] from weights, passage [T, B].

    A word that the passage has not keeps the least probability that its type can hold, not 0, so that all are finite.
    """
    summed = weights.new_zeros(weights.shape[1], vocabulary).scatter_add(1, passage.t(), weights.t())
    return summed.clamp_min(torch.finfo(summed.dtype).tiny).log()
