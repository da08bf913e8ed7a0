"""The losses of the last steps, left on the device until somebody looks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rmsrepro.train import guard
from rmsrepro.train.guard import DivergedError


class LossWindow:
    """The losses since the last row of metrics.

    Bringing a loss to the host makes a GPU wait, so losses lie here unseen until `check`.
    """

    def __init__(self) -> None:
        self.latest = math.nan
        self._unseen: list[tuple[int, Tensor, float, float]] = []
        self._seen: list[tuple[float, float]] = []

    def add(self, step: int, loss: Tensor, weight: float, lr: float) -> None:
        """Keep the mean loss of one step over `weight` units."""
        self._unseen.append((step, loss, weight, lr))

    def check(self, model: nn.Module) -> DivergedError | None:
        """Bring the losses to the host; return the error for the first that is not finite."""
        if not self._unseen:
            return None
        losses = torch.stack([loss for _, loss, _, _ in self._unseen]).tolist()
        for loss, (step, _, weight, lr) in zip(losses, self._unseen, strict=True):
            if not math.isfinite(loss):
                return guard.diverged(f"the loss is {loss}", model, step, lr, loss)
            self._seen.append((loss, weight))
            self.latest = loss
        self._unseen.clear()
        return None

    def take_mean(self) -> float | None:
        """Return the mean loss per unit since the last call; None where no unit was seen, only padding."""
        weight = math.fsum(weight for _, weight in self._seen)
        total = math.fsum(loss * weight for loss, weight in self._seen)
        self._seen.clear()
        return total / weight if weight else None

    def state_dict(self) -> dict[str, list[float]]:
        """Return what was seen since the last row, so that a resumed run's next row is the same."""
        return {"losses": [loss for loss, _ in self._seen], "weights": [weight for _, weight in self._seen]}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Take over an earlier attempt's losses."""
        self._seen = list(zip(state["losses"], state["weights"], strict=True))
