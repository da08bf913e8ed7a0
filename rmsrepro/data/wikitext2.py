"""WikiText-2 at word level (Merity et al. 2016), as pytorch/examples has it: 2 million words, 33,278 types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rmsrepro.data.canonical import Source
from rmsrepro.data.fetch import SourceUnavailable, read_url
from rmsrepro.data.text_set import KnownText, TextDataSet

_TEXTS = (
    KnownText(
        "train.txt",
        10797148,
        "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        lines=36718,
        tokens=2088628,
    ),
    KnownText(
        "valid.txt",
        1121681,
        "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        lines=3760,
        tokens=217646,
    ),
    KnownText("test.txt", 1256449, "", lines=4358, tokens=245569),
)
_RAW = "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/"
_HUB = "https://huggingface.co"


def from_rows(rows: Iterable[str]) -> bytes:
    """Return the file that the hub's rows were made of: a row is a line, and the blank ones lost their ` \\n`."""
    return "".join(row or " \n" for row in rows).encode()


def _from_github(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    for name in wanted:
        yield name, read_url(_RAW + name)


def _from_hub(wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    read_url(f"{_HUB}/api/datasets/Salesforce/wikitext")  # the client retries for half a minute without a network
    import datasets

    for name in wanted:
        split = {"valid.txt": "validation"}.get(name, name.removesuffix(".txt"))
        try:
            rows = datasets.load_dataset(
                "Salesforce/wikitext", "wikitext-2-v1", split=split, cache_dir=str(downloads / "hub")
            )
        except Exception as error:  # whatever the client raises, the next source may do better
            raise SourceUnavailable(f"{type(error).__name__}: {error}") from error
        yield name, from_rows(rows["text"])


DATA_SET = TextDataSet(
    name="wikitext2",
    texts=_TEXTS,
    sources=[Source("github pytorch/examples", _from_github), Source("huggingface.co", _from_hub)],
)
