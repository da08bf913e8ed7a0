"""The best value of a metric so far, which NaN can neither become nor hide."""

import math
from typing import Any, Literal

Direction = Literal["min", "max"]


class BestTracker:
    """Keeps the best finite value and its step; values that are not finite are counted and passed over."""

    def __init__(self, direction: Direction) -> None:
        if direction not in ("min", "max"):
            raise ValueError(f"direction: expected 'min' or 'max', got {direction!r}")
        self.direction: Direction = direction
        self.best_value: float | None = None
        self.best_step: int | None = None
        self.nonfinite_count = 0

    def update(self, value: float, step: int) -> bool:
        """Take in ``value`` and say whether it is a new best; a tie keeps the earlier step."""
        value = float(value)
        if not math.isfinite(value):
            self.nonfinite_count += 1
            return False
        if self.best_value is not None:
            better = value < self.best_value if self.direction == "min" else value > self.best_value
            if not better:
                return False
        self.best_value, self.best_step = value, step
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, fit for any checkpoint."""
        return {
            "direction": self.direction,
            "best_value": self.best_value,
            "best_step": self.best_step,
            "nonfinite_count": self.nonfinite_count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; raises ValueError if it was kept for the other direction."""
        if state["direction"] != self.direction:
            raise ValueError(f"direction: the saved state has {state['direction']!r}, expected {self.direction!r}")
        self.best_value = state["best_value"]
        self.best_step = state["best_step"]
        self.nonfinite_count = state["nonfinite_count"]
