"""What training batches tell beside their loss, left on the device until a row of metrics is due."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

#: What one batch left on the device: name -> (sum, over how many units).
Sums = dict[str, tuple[Tensor, int]]
#: The same on the host: name -> (sum, over how many units).
Taken = dict[str, tuple[float, int]]


class SumWindow:
    """Sums since the last row of metrics, each with how many units it is over.

    Bringing a sum to the host makes a GPU wait, so only `take` and `state_dict` do. Sums are float64, so that a
    checkpoint holds them exactly.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor | float] = {}
        self._counts: dict[str, int] = {}

    def add(self, sums: Sums) -> None:
        """Add what one batch left."""
        for name, (total, count) in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + total.double()
            self._counts[name] = self._counts.get(name, 0) + count

    def take(self) -> Taken:
        """Return each sum since the last call and how many units it is over."""
        taken = self.state_dict()
        self._sums, self._counts = {}, {}
        return taken

    def state_dict(self) -> Taken:
        """Return what was added since the last row, so that a resumed run's next row is the same."""
        return {name: (float(total), self._counts[name]) for name, total in self._sums.items()}

    def load_state_dict(self, state: Taken) -> None:
        """Take over an earlier attempt's sums."""
        self._sums = {name: total for name, (total, _) in state.items()}
        self._counts = {name: count for name, (_, count) in state.items()}


def means(parts: Sequence[Taken]) -> dict[str, float]:
    """Return the mean of each sum over all processes' parts, of which one may lack a name."""
    found = {}
    for name in sorted({name for part in parts for name in part}):
        totals, counts = zip(*(part[name] for part in parts if name in part), strict=True)
        found[name] = math.fsum(totals) / sum(counts)
    return found
