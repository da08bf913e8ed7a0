"""Batches of sentences of similar length, the same number in every epoch."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmsrepro.data.parallel.encoded import EncodedPairs, Ragged
from rmsrepro.data.parallel.symbols import BOS, EOS, PAD
from rmsrepro.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from rmsrepro.data.parallel.batch import PairBatch

_SPREAD = 3.0  # tokens by which the shorter side of neighbours may differ for the sake of chance


class LengthBuckets:
    """Every pair once an epoch, in batches whose pairs have similar lengths.

    Pairs are sorted by the length of their longer side, which is the same sequence of lengths every epoch, and cut
    where a batch is full: batch count and sizes never change. Among pairs whose longer sides are equally long, the
    shorter side decides, up to some chance; so batches have other members every epoch. The order of the batches is
    shuffled.

    Args:
        source_lengths: ids of each source, EOS counted.
        target_lengths: ids of each target, EOS counted.
        tokens: a batch is full when one more pair would make (pairs) x (longest side of any pair) exceed it; a pair
            that exceeds it alone is a batch of its own.
        sentences: a batch is full with so many pairs; give one of the two.
        seed: batches are a function of it, the epoch and the index only.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        seed: int,
    ) -> None:
        if (tokens is None) == (sentences is None) or (tokens or sentences or 0) < 1:
            raise ConfigError(
                f"batches of {tokens} tokens and {sentences} sentences: exactly one of the two must be set, at least 1"
            )
        self._source = np.asarray(source_lengths, np.int64)
        self._target = np.asarray(target_lengths, np.int64)
        longer, shorter = np.maximum(self._source, self._target), np.minimum(self._source, self._target)
        self._longer = longer.astype(np.min_scalar_type(longer.max(initial=0)))
        # 16 bits or fewer are sorted without comparisons, several times as fast: the shorter side gets all of them
        self._scale = np.float32(65_535 / (shorter.max(initial=0) + _SPREAD))
        self._shorter = self._scale * shorter.astype(np.float32)
        self._seed = seed
        ordered = np.sort(self._longer, kind="stable")
        if sentences is not None:
            self._cuts = np.append(np.arange(0, len(ordered), sentences), len(ordered))
        else:
            assert tokens is not None
            self._cuts = _cuts_by_tokens(ordered, tokens)
        self._epoch, self._batches = -1, []

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def indices(self, epoch: int, index: int) -> np.ndarray:
        """Return the pairs of batch `index` of `epoch`, int64."""
        if epoch != self._epoch:
            self._epoch, self._pairs, self._order = epoch, *self._shuffled(epoch)
        batch = self._order[index]
        return self._pairs[self._cuts[batch] : self._cuts[batch + 1]]

    @property
    def fewest(self) -> int:
        """The sentences of the smallest batch; 0 where there is none."""
        return int(np.diff(self._cuts).min(initial=len(self._source)))

    @cached_property
    def padding_share(self) -> float:
        """The share of all positions, of both sides, that are padding; counted in the first epoch."""
        if not len(self):
            return 0.0
        pairs, _ = self._shuffled(0)
        sizes = np.diff(self._cuts)
        positions = sum(
            int(np.maximum.reduceat(lengths[pairs], self._cuts[:-1]) @ sizes)
            for lengths in (self._source, self._target)
        )
        return 1.0 - int(self._source.sum() + self._target.sum()) / positions

    def _shuffled(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs in the order in which they are cut into batches, and the order of the batches."""
        chance = np.random.default_rng((self._seed, epoch))
        spread = self._scale * np.float32(_SPREAD) * chance.random(len(self._shorter), np.float32)
        pairs = np.argsort((self._shorter + spread).astype(np.uint16), kind="stable")
        pairs = pairs[np.argsort(self._longer[pairs], kind="stable")]
        return pairs, chance.permutation(len(self))


def collate(pairs: EncodedPairs, indices: np.ndarray, device: torch.device | str = "cpu") -> PairBatch:
    """Return the pairs as one padded batch on `device`."""
    import torch

    from rmsrepro.data.parallel.batch import PairBatch

    source, source_lengths = _padded(pairs.source, indices, end=True)
    target_out, target_lengths = _padded(pairs.target, indices, end=True)
    target_in, _ = _padded(pairs.target, indices, begin=True)
    arrays = (source, source_lengths, target_in, target_out, target_lengths)
    return PairBatch(*(torch.from_numpy(array).to(device, non_blocking=True) for array in arrays))


def _padded(side: Ragged, indices: np.ndarray, *, begin: bool = False, end: bool = False) -> tuple[np.ndarray, ...]:
    """Return sentences as rows [B, longest] with BOS before or EOS after them, and their lengths [B]; int64."""
    starts = side.offsets[indices]
    lengths = side.offsets[np.asarray(indices) + 1] - starts
    width = int(lengths.max(initial=0)) + begin + end
    columns = np.arange(width)
    rows = np.full((len(lengths), width), PAD, np.int64)
    rows[(columns >= begin) & (columns < lengths[:, None] + begin)] = side.ids[_ranges(starts, lengths)]
    if begin:
        rows[:, 0] = BOS
    if end:
        rows[np.arange(len(lengths)), lengths + begin] = EOS
    return rows, lengths + begin + end


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers start, start + 1, ... of each range, one range after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def _cuts_by_tokens(ordered: np.ndarray, tokens: int) -> np.ndarray:
    """Return where batches of at most `tokens` positions begin, for lengths in ascending order, and the end."""
    cuts = [0]
    while cuts[-1] < len(ordered):
        rest = ordered[cuts[-1] : cuts[-1] + max(1, tokens // int(ordered[cuts[-1]]))]
        fitting = int(np.searchsorted(rest * np.arange(1, len(rest) + 1), tokens, side="right"))
        cuts.append(cuts[-1] + max(1, fitting))
    return np.array(cuts, np.int64)
