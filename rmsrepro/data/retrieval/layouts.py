"""Where the files of a split lie: in order-embedding's layout and in that of VSE++.

order-embedding (Vendrov et al. 2016): `train.txt`, `dev.txt`, `test.txt` and `images/<cnn>/<split>.npy`.
VSE++ (Faghri et al. 2018): `train_caps.txt` and `train_ims.npy`, and so on; there a file may hold the row of an image
five times, once for each caption. Caption files may be compressed (.gz, .xz).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmsrepro.data.files import SUFFIXES, find_split_file
from rmsrepro.errors import DataError

_VSEPP = "_caps.txt"


class MissingSplitError(DataError):
    """A split that is not there; one that is there and wrong is a plain DataError."""


@dataclass(frozen=True)
class SplitFiles:
    """The two files of one split."""

    layout: str
    """order-embedding or vsepp."""
    captions: Path
    features: Path


def find_split(folder: Path, split: str, cnn: str | None = None) -> SplitFiles:
    """Return the files of `split` in `folder`; `cnn` chooses among several folders below `images`.

    Raises:
        MissingSplitError: there are no captions of that split.
        DataError: there are, and their features are not to be found or not to be told apart.
    """
    if captions := find_split_file(folder, f"{split}.txt"):
        return SplitFiles("order-embedding", captions, _existing(_cnn_folder(folder, cnn) / f"{split}.npy"))
    if captions := find_split_file(folder, f"{split}{_VSEPP}"):
        return SplitFiles("vsepp", captions, _existing(folder / f"{split}_ims.npy"))
    there = ", ".join(split_names(folder)) or "none"
    raise MissingSplitError(
        f"{folder / f'{split}.txt'} is not there (nor {split}{_VSEPP}, nor either as .gz or .xz); splits there: {there}"
    )


def split_names(folder: Path) -> list[str]:
    """Name the splits whose captions are in `folder`."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = set()
    for name in names:
        for suffix in SUFFIXES:
            for ending in (f"{_VSEPP}{suffix}", f".txt{suffix}"):
                if name.endswith(ending):
                    found.add(name.removesuffix(ending).removesuffix("_caps"))
    return sorted(found)


def _cnn_folder(folder: Path, cnn: str | None) -> Path:
    images = folder / "images"
    there = sorted(path.parent.name for path in images.glob("*/*.npy"))
    names = list(dict.fromkeys(there))
    if cnn is not None and cnn not in names:
        raise DataError(f"{images / cnn} has no .npy files; set task.cnn to one of: {', '.join(names) or 'none there'}")
    if cnn is None and len(names) != 1:
        found = f"of several networks ({', '.join(names)}): set task.cnn to one" if names else "not there"
        raise DataError(f"{images}/<cnn>/<split>.npy: the image features are {found}")
    return images / (cnn or names[0])


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{path} is not there, but the captions of that split are: put its image features there")
    return path
