"""The parallel data sets by name."""

from __future__ import annotations

from collections.abc import Callable

from rmsrepro.data.parallel.data_set import ParallelDataSet
from rmsrepro.data.parallel.multi30k import multi30k
from rmsrepro.data.parallel.options import PairOptions
from rmsrepro.data.parallel.wmt14 import DATA_SET as WMT14
from rmsrepro.data.parallel.wmt14 import NEWSTEST2014_SEGMENTS
from rmsrepro.errors import ConfigError
from rmsrepro.paths import expanded

#: The first 10,000 training pairs of WMT14, Moses-tokenised and HTML-escaped, from github.com/OpenNMT/OpenNMT.
WMT14_SAMPLE = ParallelDataSet("wmt14_sample", ("train",), "val", {"test": "test"}, tokenized=True)

#: The WMT news tests alone: the five oldest train, as development and test have it in WMT14.
NEWSTEST = ParallelDataSet(
    "newstest",
    train=("news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012"),
    valid="newstest2013",
    tests={"newstest2014_full": "newstest2014"},
    segments=NEWSTEST2014_SEGMENTS,
)

#: The help texts of LibreOffice, from Debian's libreoffice-help packages.
LIBREOFFICE_HELP = ParallelDataSet("libreoffice_help", ("train",), "valid", {"test": "test"})


#: What metrics of training and validation begin with.
_TAKEN = ("train", "valid")


def _own(options: PairOptions) -> ParallelDataSet:
    _check_stems(options)
    return ParallelDataSet(
        "parallel",
        (options.train_stem,),
        options.valid_stem,
        {options.test_stem: options.test_stem} if options.test_stem else {},
        folder=expanded(options.folder, "task.folder"),
        tokenized=options.tokenized,
        way_out="data=parallel reads <task.train_stem>.<task.source> and so on in the folder task.folder below "
        "data.root; set them",
    )


def _check_stems(options: PairOptions) -> None:
    """Refuse stems under which scores and translations could not be written, or would be taken for others."""
    for field, stem in (("valid_stem", options.valid_stem), ("test_stem", options.test_stem)):
        if "/" in stem:
            raise ConfigError(
                f"task.{field}={stem}: expected the start of file names, such as {field.removesuffix('_stem')};"
                " the folder goes into task.folder"
            )
    if options.test_stem and options.test_stem == options.valid_stem:
        raise ConfigError(
            f"task.test_stem={options.test_stem}: is the development set too; name another, or write task.test_stem="
            " to go without a test set"
        )
    if options.test_stem in _TAKEN:
        raise ConfigError(
            f"task.test_stem={options.test_stem}: a test set is reported under its stem, and {options.test_stem}/..."
            " are metrics of their own; give its files another name, such as test"
        )


_BY_NAME: dict[str, Callable[[PairOptions], ParallelDataSet]] = {
    "libreoffice_help": lambda _: LIBREOFFICE_HELP,
    "multi30k": multi30k,
    "newstest": lambda _: NEWSTEST,
    "parallel": _own,
    "wmt14_en_de": lambda _: WMT14,
    "wmt14_sample": lambda _: WMT14_SAMPLE,
}


def parallel_names() -> tuple[str, ...]:
    """Name the parallel data sets there are."""
    return tuple(sorted(_BY_NAME))


def parallel_data_set(name: str, options: PairOptions) -> ParallelDataSet:
    """Return the parallel data set called `name`, in the variant that the options ask for.

    Raises:
        ConfigError: there is none.
    """
    if name not in _BY_NAME:
        raise ConfigError(f"data={name} holds no sentence pairs; allowed: {', '.join(parallel_names())}")
    return _BY_NAME[name](options)
