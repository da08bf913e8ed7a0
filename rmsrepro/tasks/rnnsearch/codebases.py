"""How the three code bases behind the paper's RNNSearch results differ inside the model (paper tables 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.layers.options import GRUOptions, gru_options


@dataclass(frozen=True)
class CodeBase:
    """The cells of one code base."""

    encoder: GRUOptions
    first: GRUOptions
    """The decoder's cell that reads the token before."""
    second: GRUOptions
    """The decoder's cell that reads the context."""
    unit_gains: bool = False
    """Weight normalisation starts from rows of length one rather than from the drawn weights."""


_INPUT, _STATE = {"biases": "input"}, {"biases": "hidden"}

CODEBASES: dict[str, CodeBase] = {
    "nematus_tensorflow": CodeBase(gru_options("nematus"), gru_options("nematus"), gru_options("nematus_context")),
    # The conditional GRU normalises its input's projection inside the time loop.
    "nematus_theano": CodeBase(
        gru_options("nematus"),
        gru_options({"biases": "input", "bias_placement": "inside", "hoist_input": False}),
        gru_options("nematus_context"),
        unit_gains=True,
    ),
    # Never released. Assumed: Nematus's model with the authors' torch module, biases where the norm's config puts
    # them (behind the norm, as in the paper's formula).
    "pytorch": CodeBase(gru_options(_INPUT), gru_options(_INPUT), gru_options(_STATE)),
}
