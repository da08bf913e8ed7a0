"""Which questions make up which batch of an epoch: pure functions of the seed, the epoch and the lengths."""

from __future__ import annotations

import numpy as np

from rmsrepro.seeding import fold, permutation

#: Batches that are filled together, sorted by length: enough for hardly any padding, few enough to stay random.
_POOL_BATCHES = 32


def epoch_order(batching: str, lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the questions [batches, batch_size] of an epoch, whose number of batches is the same in every epoch.

    `bucketed` visits a fresh permutation, batches of like lengths, in random order. `sampled` draws with replacement
    (as Cooijmans et al. 2016 say). `paper` keeps the file's order in every epoch, as the paper's code does. The last
    questions that fill no batch are left out.
    """
    count = len(lengths) // batch_size
    if batching == "paper":
        return np.arange(count * batch_size).reshape(count, batch_size)
    draw = np.random.Generator(np.random.Philox(fold(seed, "batches", epoch)))
    if batching == "sampled":
        return draw.integers(len(lengths), size=(count, batch_size))
    order = permutation(len(lengths), seed, epoch)[: count * batch_size]
    pool = _POOL_BATCHES * batch_size
    by_length = [
        part[np.argsort(lengths[part], kind="stable")]
        for part in (order[start : start + pool] for start in range(0, len(order), pool))
    ]
    return np.concatenate(by_length).reshape(count, batch_size)[draw.permutation(count)]
