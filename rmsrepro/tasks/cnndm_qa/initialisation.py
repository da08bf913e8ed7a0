"""How the reader's weights start: as the paper's code base has it, quirk included, or each drawn by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from rmsrepro.tasks.cnndm_qa.model import AttentiveReader, Encoder
from rmsrepro.tasks.cnndm_qa.terms import Term

#: Returns the generator of the next draw.
Source = Callable[[], Generator | None]

#: The code base draws each matrix after setting the seed anew to this.
_SEED = 123
_ORTHOGONAL_SCALE = 0.05


@torch.no_grad()
def initialise(model: AttentiveReader, scheme: str) -> None:
    """Draw all weights: square matrices orthogonal, others Glorot-uniform, vectors U(-1/sqrt(d), 1/sqrt(d)), biases 0.

    `attentive_reader` starts every draw from the same seed, whatever the run's: matrices of one shape, among them the
    four gates and both directions, start equal; orthogonal ones are scaled by 0.05. `independent` draws each from
    torch's generator and leaves orthogonal matrices as they are. Source: paper section 2.3, the code base's quirks.
    """
    same = scheme == "attentive_reader"
    source: Source = (lambda: Generator().manual_seed(_SEED)) if same else (lambda: None)
    scale = _ORTHOGONAL_SCALE if same else 1.0
    model.embedding.copy_(_matrix(*model.embedding.shape, source, scale))
    if model.similarity is not None:
        model.similarity.copy_(_matrix(*model.similarity.shape, source, scale))
    model.attention.copy_(_vector(len(model.attention), source))
    model.output.weight.copy_(_matrix(*model.output.weight.shape, source, scale))
    model.output.bias.zero_()
    for module in model.modules():
        if isinstance(module, Encoder):
            _initialise_encoder(module, source, scale)
        elif isinstance(module, Term):
            out_features = len(model.attention)
            module.set_weight(_matrix(out_features, 2 * out_features, source, scale))


def _initialise_encoder(encoder: Encoder, source: Source, scale: float) -> None:
    size = encoder.lstm.hidden_size
    state: dict[str, Tensor] = {}
    for direction in ("", "_reverse"):
        for kind in ("ih", "hh"):
            gates = [_matrix(size, size, source, scale) for _ in range(encoder.lstm.gates)]
            state[f"weight_{kind}_l0{direction}"] = torch.cat(gates)
        state[f"bias_ih_l0{direction}"] = torch.zeros(encoder.lstm.gates * size)
    encoder.lstm.load_torch_state(state)
    if encoder.h0 is not None:
        encoder.h0.copy_(torch.stack([_vector(size, source) for _ in encoder.h0]))


def _matrix(rows: int, columns: int, source: Source, scale: float) -> Tensor:
    generator = source()
    if rows != columns:
        bound = math.sqrt(6.0 / (rows + columns))
        return torch.empty(rows, columns).uniform_(-bound, bound, generator=generator)
    q, r = torch.linalg.qr(torch.randn(rows, rows, generator=generator))
    return q * r.diagonal().sign() * scale


def _vector(size: int, source: Source) -> Tensor:
    bound = size**-0.5
    return torch.empty(size).uniform_(-bound, bound, generator=source())
