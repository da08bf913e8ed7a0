"""What can be set about a normaliser; free of torch, so that a bad value is refused at once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from rmsrepro.errors import ConfigError
from rmsrepro.typed import convert

#: The allowed values of every field that takes one of a few words.
CHOICES: dict[str, tuple[str, ...]] = {
    "eps_placement": ("inside", "outside"),
    "rounding": ("ceil", "floor"),
    "axes": ("chw", "hw", "c"),
    "bias_placement": ("outside", "inside"),
    "compute_dtype": ("auto", "float32", "float64"),
}


@dataclass
class NormConfig:
    """One normaliser; the code bases behind the paper differ in nearly every field (see conf/norm/preset)."""

    name: str = "rmsnorm"
    """The family: the module `rmsrepro.norms.<name>` and the file conf/norm/<name>.yaml."""
    preset: str | None = None
    """The code base, a file of conf/norm/preset, whose semantics `norm_config` put into the fields below."""
    eps: float = 1e-5
    """Added to the statistic so that a zero row does not divide by zero."""
    eps_placement: str = "inside"
    """`inside` the root, sqrt(ms + eps), or `outside`, sqrt(ms) + eps."""
    p: float = 1.0
    """The share of a row's elements that the statistic is taken from (pRMSNorm, paper section 5)."""
    rounding: str = "ceil"
    """k = ceil(n * p), as the paper says, or floor, as its code does; never fewer than one element."""
    gain: bool = True
    """A learned gain on every feature."""
    gain_offset: float = 0.0
    """The gain is (gain_offset + weight): 1 for Gemma, whose weights start at zero."""
    shift: bool = False
    """A learned shift on every feature."""
    axes: str = "chw"
    """A convolution's output is normalised over channel, height and width, over `hw`, or over `c`."""
    bias_placement: str = "outside"
    """A linear map's bias is added after the norm (`outside`, as in the paper's formula) or before it (`inside`)."""
    compute_dtype: str = "auto"
    """The type that statistics are taken in; `auto` is float32, or float64 for float64 inputs."""
    cast_before_gain: bool = False
    """Round to the input's type before multiplying by the gain (Llama) instead of after (Gemma)."""
    unbiased: bool = False
    """BatchNorm divides by n - 1 when it normalises, as Ba et al. do for small batches."""
    momentum: float = 0.1
    """BatchNorm's running statistics move by this share at every step."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Options that only one norm knows; its own file reads and checks them."""

    def validate(self) -> None:
        """Refuse values that mean nothing, naming the field, what was given and what is allowed."""
        for name, hint in get_type_hints(type(self)).items():
            convert(hint, getattr(self, name), f"norm.{name}")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f"norm.{name}={value}: allowed are {', '.join(allowed)}")
        if not 0.0 < self.p <= 1.0:
            raise ConfigError(f"norm.p={self.p}: allowed is 0 < p <= 1 (1 takes the statistic from all elements)")
        if not 0.0 <= self.eps < float("inf"):
            raise ConfigError(f"norm.eps={self.eps}: allowed is a finite number that is not negative")
        if not math.isfinite(self.gain_offset):
            raise ConfigError(f"norm.gain_offset={self.gain_offset}: allowed is a finite number")
        if not 0.0 < self.momentum <= 1.0:
            raise ConfigError(f"norm.momentum={self.momentum}: allowed is 0 < momentum <= 1")


def field_names() -> tuple[str, ...]:
    """Name the fields that `build_norm` and the command line accept."""
    return tuple(f.name for f in dataclasses.fields(NormConfig) if f.name != "name")


def partial_size(n: int, p: float, rounding: str = "ceil") -> int:
    """Return how many of a row's `n` elements the partial statistic uses: at least 1 and at most `n`.

    `ceil` is the paper's text (section 5), `floor` the authors' code; they differ for n=36 or 10 at 6.25 %.
    Raises ConfigError for a share outside 0 < p <= 1.
    """
    if not 0.0 < p <= 1.0:
        raise ConfigError(f"partial={p}: allowed is 0 < partial <= 1 (1 takes the statistic from all elements)")
    exact = n * p
    nearest = round(exact)
    # 48 * 0.0625 and its like must not be pushed over by the last bit of the product.
    is_whole = abs(exact - nearest) <= 1e-12 * max(exact, 1.0)
    k = nearest if is_whole else int(exact) + (rounding == "ceil")
    return min(max(k, 1), max(n, 1))
