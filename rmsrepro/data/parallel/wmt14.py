"""WMT14 English-German: 4.5 million training pairs, newstest2013 for development, newstest2014 and 2017 as tests."""

from __future__ import annotations

from pathlib import Path

from rmsrepro.data.parallel.data_set import ParallelDataSet
from rmsrepro.data.parallel.hub import hub_pairs, sacrebleu_pairs, write_pairs

_SACREBLEU = {
    "newstest2013": "wmt13",
    "newstest2014": "wmt14",
    "newstest2014_full": "wmt14/full",
    "newstest2017": "wmt17",
}

#: Of the set that was filtered for the official evaluation, and of the full one.
NEWSTEST2014_SEGMENTS = {"newstest2014": 2_737, "newstest2014_full": 3_003}


def _fetch(stem: str, languages: tuple[str, str], folder: Path) -> None:
    if stem in _SACREBLEU:
        pairs = sacrebleu_pairs(_SACREBLEU[stem], languages)
    else:
        pairs = hub_pairs("wmt/wmt14", "de-en", "train", folder / "downloads")
    write_pairs(pairs, stem, languages, folder)


#: sacrebleu's `wmt14` is the set filtered for the official evaluation; papers score that or the full one.
DATA_SET = ParallelDataSet(
    name="wmt14_en_de",
    train=("train",),
    valid="newstest2013",
    tests={stem: stem for stem in ("newstest2014", "newstest2014_full", "newstest2017")},
    fetcher=_fetch,
    segments={"newstest2013": 3_000, **NEWSTEST2014_SEGMENTS, "newstest2017": 3_004},
    way_out="put train, newstest2013, newstest2014 and newstest2017 there as .en and .de, plain, .gz or .xz, "
    "or set data.root to the folder that has wmt14_en_de/",
)
