"""Multi30k (Elliott et al. 2016): 29,000 image captions in English and German, and 1,014 for development."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rmsrepro.data.fetch import RemoteFile, SourceUnavailable, download
from rmsrepro.data.parallel.data_set import ParallelDataSet
from rmsrepro.data.parallel.hub import hub_pairs, write_pairs
from rmsrepro.data.parallel.options import PairOptions
from rmsrepro.errors import ConfigError

_REPOSITORY = "bentrevett/multi30k"
_HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
_PREPARED = ".lc.norm.tok"  # the authors' lower-cased, normalised and tokenised files
# The commit whose English training text most published scores are of; it was corrected in a few places later.
_PREPARED_FOLDER = (
    "https://raw.githubusercontent.com/multi30k/dataset/7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok/"
)
_PREPARED_FILES = {  # bytes, SHA-256
    "train.lc.norm.tok.en": (1837696, "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119"),
    "train.lc.norm.tok.de": (2150008, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"),
    "val.lc.norm.tok.en": (64608, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
    "val.lc.norm.tok.de": (77273, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
    "test_2016_flickr.lc.norm.tok.en": (63307, "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"),
    "test_2016_flickr.lc.norm.tok.de": (71917, "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"),
}


def _fetch(stem: str, languages: tuple[str, str], folder: Path) -> None:
    write_pairs(hub_pairs(_REPOSITORY, None, _HUB_SPLITS[stem], folder / "downloads"), stem, languages, folder)


def _fetch_prepared(stem: str, languages: tuple[str, str], folder: Path) -> None:
    for name in (f"{stem}.{language}" for language in languages):
        if name not in _PREPARED_FILES:
            raise SourceUnavailable(f"no {name} is known; {', '.join(sorted(_PREPARED_FILES))} are")
        size, sha256 = _PREPARED_FILES[name]
        download(RemoteFile(_PREPARED_FOLDER + name, size, f"sha256:{sha256}"), folder / name)


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
        fetcher=_fetch_prepared,
        way_out=f"put the *{_PREPARED}.* files of github.com/multi30k/dataset there, set data.root to the folder that "
        "has multi30k/, or set task.tokenized=false to use the raw text",
    )
