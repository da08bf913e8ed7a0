"""Arms that take turns, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from peers.arm import Arm, ArmError, Block

CLOCKS = ("elapsed", "processor")

#: The blocks of each arm, one a round.
Found = dict[str, list[Block]]


class Contest:
    """Arms by name; one that fails is left out from then on, with one line that says why."""

    def __init__(self) -> None:
        self.arms: dict[str, Arm] = {}

    def add(self, name: str, start: Callable[[], Arm]) -> None:
        """Start an arm and let it warm up in its first block."""
        self.arms[name] = start()
        self._each([name], lambda arm: arm.block())

    def rounds(self, count: int) -> Found:
        """Return `count` blocks of each arm, the arms in another order every round."""
        order, found = np.random.default_rng(0), {name: [] for name in self.arms}
        for _ in range(count):
            self._each(order.permutation(list(self.arms)), lambda arm: arm.block(), found)
        return {name: found[name] for name in self.arms}

    def finish(self, blocks_left: int) -> None:
        """Let each arm work the blocks that are left, save its model and leave."""
        for _ in range(blocks_left):
            self._each(list(self.arms), lambda arm: arm.block())
        self._each(list(self.arms), lambda arm: arm.finish())

    def stop(self) -> None:
        """End all arms."""
        for arm in self.arms.values():
            arm.stop()

    def _each(self, names: Iterable[str], act: Callable[[Arm], Block | None], found: Found | None = None) -> None:
        for name in names:
            try:
                block = act(self.arms[name])
            except ArmError as error:
                print(f"{name} goes on no longer: {error}", file=sys.stderr, flush=True)
                del self.arms[name]
                continue
            if found is not None and block is not None:
                found[name].append(block)


def ratios(of: Sequence[Block], to: Sequence[Block], clock: str) -> list[float]:
    """Return how many times as fast `of` was as `to`: median, least and most of the rounds."""
    each = [a.rate(clock) / b.rate(clock) for a, b in zip(of, to, strict=True)]
    return [float(np.median(each)), min(each), max(each)]


def rows(found: Mapping[str, Sequence[Block]], peers: Sequence[str], what: str) -> list[str]:
    """Return a line for each arm: its median rates, and, for those that are no peers, how many times a peer's."""
    lines = []
    for name, blocks in found.items():
        rates = [f"{np.median([block.rate(clock) for block in blocks]):7.1f} per {clock} s" for clock in CLOCKS]
        line = f"{name:>22}: {what} {', '.join(rates)}"
        if blocks[0].tokens is not None:
            line += f", {np.mean([(block.tokens or 0) / block.items for block in blocks]):.1f} subwords each"
        for peer in peers if name not in peers else ():
            for clock in CLOCKS:
                median, least, most = ratios(blocks, found[peer], clock)
                line += f"\n{'':>24}{median:.2f} x {peer} ({least:.2f}-{most:.2f}), {clock}"
        lines.append(line)
    return lines
