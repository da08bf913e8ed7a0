"""Small corpora, written as people save them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from corpora import SMALL, WORDS, sentences

from rmsrepro.data.parallel.data import PairOptions, TranslationData, load_pairs


@pytest.fixture
def put(tmp_path) -> Callable[..., Path]:
    """Write a file of the corpus `c`: lines, each ended by a line feed, or bytes as they are."""

    def write(name: str, content: Sequence[str] | bytes) -> Path:
        path = tmp_path / "data" / "c" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else "".join(f"{line}\n" for line in content).encode())
        return path

    return write


@pytest.fixture
def corpus(put) -> dict[str, list[str]]:
    """A corpus of 300 training, 20 development and 20 test pairs, on disk; its lines by file name."""
    lines = {
        f"{stem}.{language}": sentences(language, count, seed)
        for seed, (stem, count) in enumerate({"train": 300, "valid": 20, "test": 20}.items())
        for language in WORDS
    }
    for name, content in lines.items():
        put(name, content)
    return lines


@pytest.fixture
def load(tmp_path) -> Callable[..., TranslationData]:
    """Load the corpus `c` with options."""

    def run(**options) -> TranslationData:
        return load_pairs("parallel", tmp_path / "data", PairOptions(**{**SMALL, **options}), tmp_path / "cache")

    return run
