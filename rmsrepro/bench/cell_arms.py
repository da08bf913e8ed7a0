"""The contestants of the cell benchmark: this project's recurrent layers and torch's, as calls without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rmsrepro.layers import NormGRU, NormLSTM

CELLS: dict[str, tuple[type[NormLSTM | NormGRU], type[nn.LSTM | nn.GRU]]] = {
    "lstm": (NormLSTM, nn.LSTM),
    "gru": (NormGRU, nn.GRU),
}
NORMS = ("none", "layernorm", "rmsnorm", "prmsnorm")
PASSES = ("forward", "both")
#: float32 numbers for each of the T * B * H outputs that are in memory at once, as measured for the layer that needs
#: most, which is a composed one.
_HELD = {"forward": 14, "both": 44}
STOCK, AGAIN = "torch's layer", "torch's layer again"

Arm = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One layer: steps, sequences, features of the input, units."""

    steps: int
    batch: int
    width: int
    size: int

    @property
    def name(self) -> str:
        """Return T, B, in, H as tables show them."""
        return f"{self.steps}, {self.batch}, {self.width}, {self.size}"

    def held_bytes(self, pass_: str, layers: int) -> int:
        """Return about how much memory timing so many LSTMs takes: an input for each, their weights, one at work."""
        weights = 4 * self.size * (self.width + self.size)
        inputs, outputs = self.steps * self.batch * self.width, self.steps * self.batch * self.size
        numbers = layers * (weights + inputs) + _HELD[pass_] * outputs
        return numbers * torch.float32.itemsize


def arm_names(norms: Iterable[str]) -> list[str]:
    """Name all contestants for `norms`: the stock layer twice, then norm and implementation.

    Without a norm, and for a partial statistic, torch has no operation of its own: composed and torch are the same.
    """
    names = [STOCK, AGAIN]
    for norm in norms:
        impls = ("composed", "torch", "fused") if norm in ("layernorm", "rmsnorm") else ("composed", "fused")
        names += [f"{impl} {norm}" for impl in impls]
    return names


def arms(case: Case, cell: str, pass_: str, names: Iterable[str]) -> dict[str, Arm]:
    """Return the calls that are timed: a forward pass without gradients, or forward and backward to all parameters."""
    ours, stock = CELLS[cell]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.steps, case.batch, case.width, generator=generator)
    dy = torch.randn(case.steps, case.batch, case.size, generator=generator)
    plain = stock(case.width, case.size)
    calls: dict[str, Arm] = {}
    for name in names:
        if name in (STOCK, AGAIN):
            layer: nn.Module = plain
        else:
            impl, norm = name.split()
            layer = ours(case.width, case.size, norm=norm, impl=impl)
            layer.load_state_dict(plain.state_dict(), strict=False)  # gains keep their start
        calls[name] = _forward(layer, x) if pass_ == "forward" else _both(layer, x.clone().requires_grad_(), dy)
    return calls


def _forward(layer: nn.Module, x: Tensor) -> Arm:
    def call() -> object:
        with torch.no_grad():
            return layer(x)

    return call


def _both(layer: nn.Module, x: Tensor, dy: Tensor) -> Arm:
    leaves = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x)[0], leaves, dy)
