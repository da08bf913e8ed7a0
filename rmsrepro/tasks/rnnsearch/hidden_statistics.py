"""Mean and standard deviation of the decoder's hidden-to-hidden mapping by target position (paper table 5)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rmsrepro.data.parallel.batch import PairBatch
from rmsrepro.tasks.rnnsearch.model import RNNSearch, full_precision_on_cpu

#: Positions that the table shows one by one.
_SHOWN = 4


@torch.no_grad()
def hidden_statistics(model: RNNSearch, batches: Iterable[PairBatch], part: str) -> dict[str, float]:
    """Return hidden/mean_k and hidden/std_k for target positions k = 1 to 4 and `all`, over sentences and units.

    Measured is U h of the cell that reads the token before, normalised where the model normalises it, with the
    reference as the tokens before. The paper does not say which cell, nor which `part`: `all` three blocks, only the
    reset and update `gates`, or only the `candidate`. Positions that no sentence has are left out.
    """
    hidden = model.decoder.cell().first.hidden
    units = model.decoder.first.hidden_size
    first, last = {"all": (0, 3 * units), "gates": (0, 2 * units), "candidate": (2 * units, 3 * units)}[part]
    sums = torch.zeros(3, _SHOWN + 1, dtype=torch.float64)  # count, sum, sum of squares; the last column is the rest
    for batch in batches:
        with full_precision_on_cpu(batch.source):
            states, mask = model.states_before(batch), batch.target_mask.t()
            for t, (h, rows) in enumerate(zip(states, mask, strict=True)):
                mapped = hidden.finish(hidden.linear(h), t, rows)[rows, first:last].double()
                found = (mapped.numel(), mapped.sum().item(), mapped.square().sum().item())
                sums[:, min(t, _SHOWN)] += torch.tensor(found, dtype=torch.float64)
    metrics: dict[str, float] = {}
    for name, of in [*((str(k + 1), sums[:, k]) for k in range(_SHOWN)), ("all", sums.sum(1))]:
        if of[0]:
            metrics |= _moments(name, *of)
    return metrics


def _moments(name: str, count: Tensor, total: Tensor, squares: Tensor) -> dict[str, float]:
    mean = total / count
    deviation = (squares / count - mean.square()).clamp_min(0.0).sqrt()
    return {f"hidden/mean_{name}": mean.item(), f"hidden/std_{name}": deviation.item()}
