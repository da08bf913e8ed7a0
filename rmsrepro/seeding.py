"""Randomness as a pure function of where training stands: (seed, epoch, step) and nothing else."""

from __future__ import annotations

import hashlib

import numpy as np


def fold(seed: int, *words: int | str) -> int:
    """Return a 63-bit seed that depends on `seed` and every word, and looks like none of its neighbours."""
    text = "/".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def permutation(n: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order [n] in which an epoch visits `n` items: the same for the same seed and epoch."""
    return np.random.Generator(np.random.Philox(fold(seed, "order", epoch))).permutation(n)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's generators for one step, so that a resumed run draws what an uninterrupted one would."""
    import torch

    number = fold(seed, "step", step, rank)
    if torch.cuda.is_available():
        torch.manual_seed(number)
    else:
        # Without a GPU torch.manual_seed would note down a stack trace for each device it cannot seed yet.
        torch.default_generator.manual_seed(number)
