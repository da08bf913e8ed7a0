"""Averaged parameters that start when the validation metric stops improving (NT-ASGD, Merity et al. 2018)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rmsrepro.config import TrainConfig


class TriggeredAverage:
    """The mean of the parameters over all steps since the trigger; training itself goes on with the latest ones.

    Triggered, once, when an evaluation is worse than the best of those more than `average_patience` evaluations
    ago (awd-lstm-lm's rule, with 5). The mean is what is evaluated and kept as the best from then on.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], cfg: TrainConfig, direction: Literal["min", "max"] = "min"
    ) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._on, self._patience = cfg.average == "nt_asgd", cfg.average_patience
        self._sign = 1.0 if direction == "min" else -1.0
        self._history: list[float] = []
        self._means: list[Tensor] = []
        self._count = 0

    @property
    def active(self) -> bool:
        """Say whether averaging has started."""
        return bool(self._means)

    @torch.no_grad()
    def step(self) -> None:
        """Take the parameters after one step into the mean."""
        if self._means:
            self._count += 1
            torch._foreach_lerp_(self._means, self._parameters, 1.0 / self._count)

    @torch.no_grad()
    def observe(self, value: float) -> None:
        """Take in the validation metric of an evaluation, and start averaging where it says so."""
        if not self._on or self._means or not math.isfinite(value):
            return
        value *= self._sign
        earlier = self._history[: max(len(self._history) - self._patience, 0)]
        if earlier and value > min(earlier):
            self._means, self._count = [p.detach().clone() for p in self._parameters], 1
        self._history.append(value)

    @contextlib.contextmanager
    def swapped_in(self) -> Generator[None]:
        """Put the mean in the parameters' place while the block runs; without one, change nothing."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def stop(self) -> None:
        """Forget the mean: the model holds parameters that were chosen already."""
        self._means, self._on = [], False

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self._parameters, self._means, strict=False):
            latest = parameter.clone()
            parameter.copy_(mean)
            mean.copy_(latest)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain numbers for a checkpoint."""
        return {"history": self._history, "means": self._means, "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state."""
        self._history, self._count = list(state["history"]), state["count"]
        devices = [p.device for p in self._parameters[: len(state["means"])]]
        self._means = [mean.to(device) for mean, device in zip(state["means"], devices, strict=True)]
