"""What the tests of parallel corpora make up and read back."""

from __future__ import annotations

import numpy as np

from rmsrepro.data.parallel.data import TranslationData

WORDS = {
    "en": "the a small big dog cat house river runs sleeps sees on under with red green old young man woman",
    "de": "der ein kleiner großer hund katze haus fluss läuft schläft sieht auf unter mit rot grün alt jung",
}
SMALL = {"vocabulary": 340, "folder": "c"}


def sentences(language: str, count: int, seed: int = 0) -> list[str]:
    """Make up `count` sentences of 3 to 12 words."""
    rng = np.random.default_rng((seed, ord(language[0])))
    words = WORDS[language].split()
    return [" ".join(words[i] for i in rng.integers(0, len(words), rng.integers(3, 13))) for _ in range(count)]


def training_text(data: TranslationData) -> list[tuple[str, str]]:
    """Return all training pairs as text again."""
    pairs = (data.train.pair(index) for index in range(len(data.train)))
    return [(data.vocabulary.decode(source), data.vocabulary.decode(target)) for source, target in pairs]
