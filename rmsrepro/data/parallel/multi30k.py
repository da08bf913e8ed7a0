"""Multi30k (Elliott et al. 2016): 29,000 image captions in English and German, and 1,014 for development."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rmsrepro.data.parallel.data_set import ParallelDataSet
from rmsrepro.data.parallel.hub import hub_pairs, write_pairs
from rmsrepro.data.parallel.options import PairOptions
from rmsrepro.errors import ConfigError

_REPOSITORY = "bentrevett/multi30k"
_HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
_PREPARED = ".lc.norm.tok"  # the authors' lower-cased, normalised and tokenised files


def _fetch(stem: str, languages: tuple[str, str], folder: Path) -> None:
    write_pairs(hub_pairs(_REPOSITORY, None, _HUB_SPLITS[stem], folder / "downloads"), stem, languages, folder)


DATA_SET = ParallelDataSet(
    name="multi30k",
    train=("train",),
    valid="val",
    tests={"test_2016_flickr": "test_2016_flickr"},
    fetcher=_fetch,
    segments={"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000},
    way_out="put the files of github.com/multi30k/dataset there, or set data.root to the folder that has multi30k/",
)


def multi30k(options: PairOptions) -> ParallelDataSet:
    """Return the raw files, or the authors' tokenised ones for task.lowercase=true task.tokenized=true."""
    if not options.tokenized:
        return DATA_SET
    if not options.lowercase:
        raise ConfigError(
            "task.tokenized=true task.lowercase=false: the tokenised files of multi30k are lower-cased; "
            "set task.lowercase=true too, or task.tokenized=false for the raw text"
        )
    return replace(
        DATA_SET,
        variant=_PREPARED,
        fetcher=None,
        way_out=f"put the *{_PREPARED}.* files of github.com/multi30k/dataset there, set data.root to the folder that "
        "has multi30k/, or set task.tokenized=false to use the raw text",
    )
