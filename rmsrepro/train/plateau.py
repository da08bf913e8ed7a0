"""The learning rate falls when the validation metric stops improving, as pytorch/examples anneals its LSTM."""

from __future__ import annotations

from typing import Any

from rmsrepro.config import TrainConfig


class Plateau:
    """Divides the learning rate by `plateau_factor` after `plateau_patience` evaluations in a row without a new best.

    `scale` is what the schedule's learning rate is multiplied by; it stays 1 with any other schedule.
    """

    def __init__(self, cfg: TrainConfig) -> None:
        self._on = cfg.schedule == "plateau"
        self._factor, self._patience = cfg.plateau_factor, cfg.plateau_patience
        self.scale, self._without_best = 1.0, 0

    def observe(self, improved: bool) -> None:
        """Take in whether an evaluation brought a new best."""
        if not self._on:
            return
        self._without_best = 0 if improved else self._without_best + 1
        if self._without_best == self._patience:
            self.scale, self._without_best = self.scale / self._factor, 0

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers for a checkpoint."""
        return {"scale": self.scale, "without_best": self._without_best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.scale, self._without_best = state["scale"], state["without_best"]
