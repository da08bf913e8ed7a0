"""What can be set about a recurrent cell beside its norm; free of torch, so that a bad value is refused at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rmsrepro.errors import ConfigError

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "biases": ("both", "input", "hidden"),
    "bias_placement": (None, "inside", "outside"),
    "reset": ("after", "before"),
}


@dataclass(frozen=True)
class CellOptions:
    """Where a recurrent cell is normalised and where its biases go; the same for both kinds of cell."""

    norm_input: bool = True
    """Normalise the projection of the input, W x."""
    norm_hidden: bool = True
    """Normalise the projection of the state, U h."""
    hoist_input: bool = True
    """Normalise W x for all steps at once, before the time loop; false: again at every step, inside it."""
    biases: str = "both"
    """Which projections have a bias: `both`, as in torch, only the `input`'s or only the `hidden` state's."""
    bias_placement: str | None = None
    """Biases are added before the norm (`inside`) or after it (`outside`); None: as the norm's field says."""
    gain_init: float = 1.0
    """What every gain starts from (Cooijmans et al. 2016 start batch normalisation from 0.1)."""
    max_steps: int = 100
    """Time steps with their own running statistics, for norms that keep some; later steps use the last ones."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name, allowed[0])
            if value not in allowed:
                raise ConfigError(f"cell.{name}={value}: allowed are {', '.join(str(word) for word in allowed)}")
        if self.max_steps < 1:
            raise ConfigError(f"cell.max_steps={self.max_steps}: at least 1 is needed")


Options = TypeVar("Options", bound=CellOptions)


@dataclass(frozen=True)
class LSTMOptions(CellOptions):
    """Options of a long short-term memory."""

    norm_cell: bool = True
    """Normalise the cell state on its way to the output; the carried one stays as it is."""
    repeat_bias: bool = False
    """Add the input's bias once more after the norms, as the attentive reader's code does."""


@dataclass(frozen=True)
class GRUOptions(CellOptions):
    """Options of a gated recurrent unit."""

    reset: str = "after"
    """The reset gate multiplies the state's projection (`after` it, as in torch), or the state `before` it."""


#: The cells of the code bases behind the paper (its sections 2.1, 2.3 and 2.4).
GRU_PRESETS: dict[str, dict[str, object]] = {
    # The encoder, and the decoder's first unit: the bias belongs to the input.
    "nematus": {"biases": "input", "bias_placement": "inside"},
    # The decoder's second unit, whose input is the attention's context: the bias belongs to the state.
    "nematus_context": {"biases": "hidden", "bias_placement": "inside"},
    # Normalises the input's projection at every step although it could be done once.
    "order_embedding": {"biases": "input", "bias_placement": "inside", "hoist_input": False},
}
LSTM_PRESETS: dict[str, dict[str, object]] = {
    "attentive_reader": {"biases": "input", "bias_placement": "inside", "repeat_bias": True},
}


def gru_options(cell: GRUOptions | str | Mapping[str, object] | None) -> GRUOptions:
    """Return the options that `cell` stands for: given as such, as fields, or as the name of a preset."""
    return _resolve(GRUOptions, GRU_PRESETS, cell)


def lstm_options(cell: LSTMOptions | str | Mapping[str, object] | None) -> LSTMOptions:
    """Return the options that `cell` stands for: given as such, as fields, or as the name of a preset."""
    return _resolve(LSTMOptions, LSTM_PRESETS, cell)


def _resolve(
    kind: type[Options], presets: Mapping[str, Mapping[str, object]], cell: Options | str | Mapping[str, object] | None
) -> Options:
    if isinstance(cell, kind):
        return cell
    if isinstance(cell, str):
        if cell not in presets:
            raise ConfigError(f"cell={cell}: known presets are {', '.join(presets)}")
        cell = presets[cell]
    values: dict[str, Any] = dict(cell) if isinstance(cell, Mapping) else {}
    allowed = [field.name for field in fields(kind)]
    unknown = sorted(set(values) - set(allowed))
    if unknown:
        raise ConfigError(f"cell.{unknown[0]}: allowed fields are {', '.join(allowed)}")
    return kind(**values)
