"""A parallel corpus of a few hundred made-up sentences, blank and long ones among them."""

import random
from pathlib import Path

WORDS = {f"{c}{v}{d}": f"{d}{v}{c}n" for c in "bdgk" for v in "aeio" for d in "lmr"}


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return sentences of one to eight words, and the same word by word in another language."""
    draw = random.Random(seed)
    sources = [" ".join(draw.choices(list(WORDS), k=draw.randint(1, 8))) for _ in range(count)]
    return [(source, " ".join(WORDS[word] for word in source.split())) for source in sources]


def write(folder: Path, stem: str, lines: list[tuple[str, str]]) -> None:
    for suffix, side in zip(("en", "de"), zip(*lines, strict=True), strict=True):
        (folder / f"{stem}.{suffix}").write_text("".join(f"{line}\n" for line in side))


def write_corpus(root: Path) -> None:
    """Write train, valid and test below `root`; the test has blank lines and one of 300 words."""
    folder = root / "parallel"
    folder.mkdir(parents=True)
    write(folder, "train", pairs(300, seed=1))
    write(folder, "valid", pairs(20, seed=2))
    test = pairs(12, seed=3)
    test[0] = ("", "leer")
    test[5] = ("   ", test[5][1])
    test[11] = ("", "")
    test[7] = (" ".join(["bal"] * 300), test[7][1])
    write(folder, "test", test)
