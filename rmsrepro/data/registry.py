"""The data sets by name."""

from __future__ import annotations

from importlib import import_module

from rmsrepro.data.dataset import DataSet
from rmsrepro.errors import DataError

# name -> module whose DATA_SET it is, or module:ATTRIBUTE; a module is imported only when its data set is asked for
_MODULES = {
    "brown": "rmsrepro.data.brown",
    "brown_cloze": "rmsrepro.data.cloze.brown",
    "cifar10": "rmsrepro.data.cifar10",
    "cloze": "rmsrepro.data.cloze.known:OWN",
    "cnn": "rmsrepro.data.cloze.known:CNN",
    "cnn_top4": "rmsrepro.data.cloze.known:CNN_TOP4",
    "coco": "rmsrepro.data.coco",
    "dailymail": "rmsrepro.data.cloze.known:DAILYMAIL",
    "flickr8k": "rmsrepro.data.flickr8k",
    "libreoffice_help": "rmsrepro.data.parallel.catalog:LIBREOFFICE_HELP",
    "mnist": "rmsrepro.data.mnist",
    "multi30k": "rmsrepro.data.parallel.multi30k",
    "newstest": "rmsrepro.data.parallel.catalog:NEWSTEST",
    "ptb": "rmsrepro.data.ptb",
    "wikitext2": "rmsrepro.data.wikitext2",
    "wikitext2_cloze": "rmsrepro.data.cloze.known:WIKITEXT2",
    "wmt14_en_de": "rmsrepro.data.parallel.wmt14",
    "wmt14_sample": "rmsrepro.data.parallel.catalog:WMT14_SAMPLE",
}


def data_set_names() -> list[str]:
    """Return the names of the data sets that can be fetched or checked."""
    return sorted(_MODULES)


def get_data_set(name: str) -> DataSet:
    """Return the data set called `name`.

    Raises:
        DataError: there is none.
    """
    if name not in _MODULES:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(data_set_names())}")
    module, _, attribute = _MODULES[name].partition(":")
    return getattr(import_module(module), attribute or "DATA_SET")
