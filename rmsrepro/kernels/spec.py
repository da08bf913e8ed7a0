"""What a row norm is asked to do, in the words that every kernel shares."""

from __future__ import annotations

from typing import NamedTuple

#: How a norm can be computed; `auto` is the fastest that is available and correct for the input.
IMPLS = ("auto", "composed", "torch", "fused", "compile")


class NormSpec(NamedTuple):
    """One formula over rows of n elements; hashable, so that kernels can keep what they derive from it.

    y = (x - mean) * r * (gain + gain_offset) + bias with r = 1 / sqrt(ms + eps), or 1 / (sqrt(ms) + eps);
    the mean is zero unless `centre`, and ms is the mean square of the first `k` (centred) elements.
    """

    centre: bool
    """LayerNorm when true, RMSNorm and pRMSNorm when false."""
    k: int
    """Elements that the statistic is taken from, 1 <= k <= n; always n when centred."""
    eps: float
    eps_outside: bool = False
    gain_offset: float = 0.0

    @property
    def stats(self) -> int:
        """Numbers saved per row for the backward pass: r, or mean and r."""
        return 1 + self.centre
