"""Which captions belong to which photograph, from the lists that the data sets come with."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from rmsrepro.data.files import read_maybe_compressed
from rmsrepro.data.retrieval.captions import PER_IMAGE
from rmsrepro.data.text import read_text
from rmsrepro.errors import DataError

#: The names that Karpathy's lists give to splits, and ours.
_KARPATHY = {"train": "train", "restval": "train", "val": "dev", "test": "test"}
_NUMBER = re.compile(r"#\d+$")


@dataclass
class CaptionList:
    """The photographs of one split and their captions, five each."""

    images: list[str] = field(default_factory=list)
    """File names, as the list writes them."""
    captions: list[str] = field(default_factory=list)

    def add(self, image: str, captions: list[str], source: Path) -> None:
        """Append an image with the first five of its captions, words separated by single spaces."""
        if len(captions) < PER_IMAGE:
            raise DataError(f"{source}: {image} has {len(captions)} captions: expected {PER_IMAGE} or more")
        self.images.append(image)
        self.captions += [" ".join(caption.split()) for caption in captions[:PER_IMAGE]]


def read_karpathy(path: Path) -> dict[str, CaptionList]:
    """Return the splits train, dev and test of a `dataset_coco.json`, `dataset_flickr8k.json` or the like.

    The words are the list's tokens; `restval` counts as training data, as in order-embedding.
    """
    splits: dict[str, CaptionList] = {}
    try:
        for image in json.loads(read_maybe_compressed(path))["images"]:
            name = str(Path(image.get("filepath", "")) / image["filename"])
            captions = [" ".join(sentence["tokens"]) for sentence in image["sentences"]]
            splits.setdefault(_KARPATHY[image["split"]], CaptionList()).add(name, captions, path)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path} is no list of Karpathy's: expected JSON with images, each with filename, split and sentences "
            f"of tokens ({type(error).__name__}: {error})"
        ) from error
    return splits


def read_tab_separated(path: Path, split: str, only: Path | None = None) -> dict[str, CaptionList]:
    """Return one split of a list of lines `image<TAB>caption`, where `#0` and the like may follow the image's name.

    `only` is a file with one image name a line: those, in that order. The captions are taken as they are.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(path).lines, start=1):
        name, tab, caption = line.partition("\t")
        if not tab:
            raise DataError(f"{path}: line {number} has no tab: expected an image's name, a tab and a caption")
        found.setdefault(_NUMBER.sub("", name.strip()), []).append(caption)
    names = [line.strip() for line in read_text(only).lines if line.strip()] if only else list(found)
    result = CaptionList()
    for name in names:
        result.add(name, found.get(name, []), path)
    return {split: result}
