"""The splits that a run trains and is judged on, in the numbers of one vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsrepro.data.progress import say
from rmsrepro.data.registry import get_data_set
from rmsrepro.data.retrieval.captions import PER_IMAGE, caption_vocabulary, encode_captions
from rmsrepro.data.retrieval.data_set import CaptionDataSet
from rmsrepro.data.retrieval.layouts import MissingSplitError
from rmsrepro.data.retrieval.split import CaptionedImages, Pairs, read_split
from rmsrepro.data.vocabulary import Vocabulary
from rmsrepro.errors import DataError
from rmsrepro.tasks.order_embedding.config import Config


@dataclass(frozen=True)
class Corpus:
    """A vocabulary, and `train`, `valid` and perhaps `test`."""

    vocabulary: Vocabulary
    files: dict[str, CaptionedImages]
    pairs: dict[str, Pairs]

    def checksums(self) -> dict[str, str]:
        """Return the checksums of captions, the same with any line ends and compression, and of features."""
        found = {}
        for split, files in self.files.items():
            found[f"{split} captions"] = f"sha256:{files.text.sha256}"
            found[f"{split} features"] = f"sha256:{files.features_sha256}"
        return found

    def facts(self) -> dict[str, Any]:
        """Return sizes and the shares of unknown words, for the record."""
        train = self.files["train"]
        facts: dict[str, Any] = {
            "layout": train.layout,
            "features": f"{train.features.path.parent.name} {train.features.shape[1]} {train.features.dtype}",
            "vocabulary": len(self.vocabulary),
            "vocabulary_sha256": self.vocabulary.sha256(),
        }
        for split, pairs in self.pairs.items():
            facts[f"{split}_images"] = len(pairs)
            facts[f"{split}_captions"] = len(pairs.captions)
            facts[f"{split}_unk_rate"] = pairs.captions.unknown_rate()
        return facts


def load_corpus(data: str, root: Path, cfg: Config) -> Corpus:
    """Read the splits of `data` from below `root`; a test split where `cfg.test_split` wants or finds one.

    Raises:
        DataError: a split that is needed is not there, or one that is there is not as it should be.
    """
    folder = _folder(data, root, cfg)
    files = {
        split: read_split(folder, name, cfg.cnn) for split, name in (("train", "train"), ("valid", cfg.valid_split))
    }
    if cfg.test_split != "valid":
        try:
            files["test"] = read_split(folder, "test" if cfg.test_split == "auto" else cfg.test_split, cfg.cnn)
        except MissingSplitError as error:
            if cfg.test_split != "auto":
                raise DataError(f"{error}; or set task.test_split=valid to be judged by the development set") from error
            say(f"{error}; this run is judged by the development set: its primary metric is valid/image_r1")
    _require_one_width(files)
    known = ("train", "valid") if cfg.vocabulary == "train_dev" else ("train",)
    vocabulary = caption_vocabulary(files[split].text.lines for split in known)
    return Corpus(vocabulary, files, {split: _pairs(split, read, vocabulary, cfg) for split, read in files.items()})


def _folder(data: str, root: Path, cfg: Config) -> Path:
    if data == "captions":
        return root / cfg.folder
    data_set = get_data_set(data)
    assert isinstance(data_set, CaptionDataSet)
    return data_set.folder(root)


def _require_one_width(files: dict[str, CaptionedImages]) -> None:
    train = files["train"].features
    for split in files.values():
        if split.features.shape[1] != train.shape[1]:
            raise DataError(
                f"{split.features.path} has rows of {split.features.shape[1]} numbers and {train.path} of "
                f"{train.shape[1]}: expected features of one network"
            )


def _pairs(split: str, read: CaptionedImages, vocabulary: Vocabulary, cfg: Config) -> Pairs:
    limit = cfg.limit_train if split == "train" else cfg.limit_eval
    lines = read.text.lines if limit is None else read.text.lines[: limit * PER_IMAGE]
    return Pairs(encode_captions(lines, vocabulary), read.features, read.row_step)
