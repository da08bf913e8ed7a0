"""How the reader's weights start: as the paper's code base has it, quirk included, or each drawn by itself."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from rmsrepro.tasks.cnndm_qa.model import AttentiveReader, Encoder
from rmsrepro.tasks.cnndm_qa.terms import Term

#: The code base sets the seed anew to this before it draws a matrix.
_SEED = 123
_ORTHOGONAL_SCALE = 0.05
_EMBEDDING_RANGE = 0.1


@torch.no_grad()
def initialise(model: AttentiveReader, scheme: str) -> None:
    """Draw all weights: square matrices orthogonal, others Glorot-uniform, vectors U(-1/sqrt(d), 1/sqrt(d)), biases 0.

    `attentive_reader` starts every draw from the same seed, whatever the run's: matrices of one shape, among them the
    four gates and both directions, start equal; orthogonal ones are scaled by 0.05. `independent` draws each from
    torch's generator, leaves those of the LSTMs as they are and the embedding uniform within 0.1.
    Source: paper section 2.3, the code base's quirks.
    """
    draw = _Draw(scheme == "attentive_reader")
    if draw.same:
        model.embedding.copy_(draw.matrix(*_sizes(model.embedding)))
    else:
        model.embedding.uniform_(-_EMBEDDING_RANGE, _EMBEDDING_RANGE)
    if model.similarity is not None:
        # Large, it would drive the attention's tanh to its ends before anything is learned.
        model.similarity.copy_(draw.matrix(*_sizes(model.similarity)) * (1.0 if draw.same else _ORTHOGONAL_SCALE))
    model.attention.copy_(draw.vector(len(model.attention)))
    if not model.sums_attention:
        model.output.weight.copy_(draw.matrix(*_sizes(model.output.weight)))
        model.output.bias.zero_()
    for module in model.modules():
        if isinstance(module, Encoder):
            _initialise_encoder(module, draw)
        elif isinstance(module, Term):
            module.set_weight(draw.matrix(module.out_features, module.in_features))


def _initialise_encoder(encoder: Encoder, draw: _Draw) -> None:
    size, gates = encoder.lstm.hidden_size, encoder.lstm.gates
    state: dict[str, Tensor] = {}
    for direction in ("", "_reverse"):
        for kind in ("ih", "hh"):
            state[f"weight_{kind}_l0{direction}"] = torch.cat([draw.matrix(size, size) for _ in range(gates)])
        state[f"bias_ih_l0{direction}"] = torch.zeros(gates * size)
    encoder.lstm.load_torch_state(state)
    if encoder.h0 is not None:
        encoder.h0.copy_(torch.stack([draw.vector(size) for _ in encoder.h0]))


class _Draw:
    """Draws weights, `same` from one seed every time or else one after another from torch's generator."""

    def __init__(self, same: bool) -> None:
        self.same = same

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Return [rows, columns]: orthogonal where it is square, else Glorot-uniform."""
        if rows != columns:
            bound = math.sqrt(6.0 / (rows + columns))
            return torch.empty(rows, columns).uniform_(-bound, bound, generator=self._generator())
        q, r = torch.linalg.qr(torch.randn(rows, rows, generator=self._generator()))
        return q * r.diagonal().sign() * (_ORTHOGONAL_SCALE if self.same else 1.0)

    def vector(self, size: int) -> Tensor:
        """Return [size], uniform within one over the root of its size."""
        return torch.empty(size).uniform_(-(size**-0.5), size**-0.5, generator=self._generator())

    def _generator(self) -> Generator | None:
        return Generator().manual_seed(_SEED) if self.same else None


def _sizes(matrix: Tensor) -> tuple[int, int]:
    rows, columns = matrix.shape
    return rows, columns
