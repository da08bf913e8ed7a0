"""The texts that a run trains and is judged on, as streams of tokens of one vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsrepro.data.progress import say
from rmsrepro.data.registry import get_data_set
from rmsrepro.data.text import Text
from rmsrepro.data.text_set import MissingTextError, TextDataSet, load_own_text
from rmsrepro.data.vocabulary import TokenStream, Vocabulary
from rmsrepro.errors import DataError
from rmsrepro.tasks.lstm_lm.config import Config


@dataclass(frozen=True)
class Corpus:
    """A vocabulary from the training text, and `train`, `valid` and perhaps `test` in its numbers."""

    vocabulary: Vocabulary
    texts: dict[str, Text]
    streams: dict[str, TokenStream]
    published: bool | None
    """Whether every text is the published one; None where there is no such thing."""

    def facts(self) -> dict[str, Any]:
        """Return sizes and the shares of unknown words, for the record."""
        facts: dict[str, Any] = {
            "vocabulary": len(self.vocabulary),
            "vocabulary_sha256": self.vocabulary.sha256(),
            "published_text": self.published,
        }
        for split, stream in self.streams.items():
            facts[f"{split}_tokens"] = len(stream)
            facts[f"{split}_unk_rate"] = float(stream.unknown.mean())
            facts[f"{split}_tokens_outside_vocabulary"] = int(stream.outside.sum())
        return facts


def load_corpus(data: str, root: Path, cfg: Config) -> Corpus:
    """Read the corpus `data` from below `root`, with a test split where `cfg.test_split` wants or finds one.

    Raises:
        DataError: a split that is needed is not there, or one that is there is damaged.
    """
    texts = {split: _read(data, root, cfg, split) for split in ("train", "valid")}
    if cfg.test_split != "valid":
        try:
            texts["test"] = _read(data, root, cfg, "test")
        except MissingTextError as error:
            if cfg.test_split == "test":
                raise DataError(f"{error}; or set task.test_split=valid to be judged by the validation text") from error
            say(f"{error}; the validation text is what this run is judged by: its primary metric is valid/perplexity")
    vocabulary = Vocabulary.from_lines(texts["train"].lines, cfg.min_count)
    streams = {split: vocabulary.encode(text.lines).first(cfg.limit_tokens) for split, text in texts.items()}
    return Corpus(vocabulary, texts, streams, _published(data, texts))


def _read(data: str, root: Path, cfg: Config, split: str) -> Text:
    return load_own_text(root, cfg.text, split) if data == "text" else _data_set(data).load(root, split)


def _published(data: str, texts: dict[str, Text]) -> bool | None:
    if data == "text":
        return None
    differing = {split: _data_set(data).difference(split, text) for split, text in texts.items()}
    for split, difference in differing.items():
        if difference:
            say(f"{texts[split].path} is not the {data} that everybody uses ({difference}); the record says so")
    return not any(differing.values())


def _data_set(name: str) -> TextDataSet:
    data_set = get_data_set(name)
    assert isinstance(data_set, TextDataSet)
    return data_set
