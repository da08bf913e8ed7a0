"""Sentences to translate and what they are scored against: every line stays at its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmsrepro.data.parallel.encoded import EncodedPairs, id_type
from rmsrepro.data.parallel.file_pairs import ExaminedPair
from rmsrepro.data.parallel.lines import read_lines
from rmsrepro.data.parallel.shards import pair_hash
from rmsrepro.data.parallel.subwords import Subwords


@dataclass(frozen=True)
class EvaluationSet:
    """One development or test set; nothing is dropped, a blank line is an empty sentence at its index."""

    name: str
    sources: list[str]
    references: list[str]
    pairs: EncodedPairs
    nuls_removed: int

    def __len__(self) -> int:
        return len(self.sources)

    def facts(self, training_hashes: np.ndarray) -> dict[str, int]:
        """Count what a reader of the score should know; `training_hashes` are sorted."""
        pairs = list(zip(self.sources, self.references, strict=True))
        hashes = np.array([pair_hash(*pair) for pair in pairs], np.int64)
        places = np.minimum(np.searchsorted(training_hashes, hashes), len(training_hashes) - 1)
        return {
            "segments": len(self),
            "blank_sources": sum(not source.strip() for source in self.sources),
            "blank_references": sum(not reference.strip() for reference in self.references),
            "nuls_removed": self.nuls_removed,
            "source_is_target": sum(source == reference != "" for source, reference in pairs),
            "also_in_training": int((training_hashes[places] == hashes).sum()),
            "longest_source": int(self.pairs.source_lengths.max()),
            "longest_target": int(self.pairs.target_lengths.max()),
        }


def read_evaluation_set(name: str, examined: ExaminedPair, subwords: Subwords, lowercase: bool) -> EvaluationSet:
    """Read and encode a development or test set; NUL characters are removed and counted."""
    texts = [b"\n".join(read_lines([path])).decode() for path in examined.files.paths]
    nuls = sum(text.count("\0") for text in texts)
    sources, references = ((text.lower() if lowercase else text).replace("\0", "").split("\n") for text in texts)
    encoded = EncodedPairs.of(subwords.encode_lines(sources), subwords.encode_lines(references), id_type(len(subwords)))
    return EvaluationSet(name, sources, references, encoded, nuls)
