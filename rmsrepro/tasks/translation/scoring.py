"""BLEU and chrF by sacrebleu, with the signature that makes them comparable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from rmsrepro.errors import DataError

# It warns of text that looks tokenised at every call; the record says how the text was scored.
logging.getLogger("sacrebleu").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Scores:
    """Corpus scores of one set, in percent."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    segments: int
    empty_hypotheses: int
    empty_references: int
    length_ratio: float
    """Tokens of the hypotheses over those of the references."""

    def facts(self) -> dict[str, Any]:
        """Return what the record says beside the scores."""
        return {
            "bleu_signature": self.bleu_signature,
            "chrf_signature": self.chrf_signature,
            "segments_scored": self.segments,
            "empty_hypotheses": self.empty_hypotheses,
            "empty_references": self.empty_references,
            "length_ratio": self.length_ratio,
        }


def score(hypotheses: Sequence[str], references: Sequence[str], *, tokenized: bool = False, name: str = "") -> Scores:
    """Score hypotheses against one reference each, segment by segment.

    Detokenised text is tokenised by sacrebleu (13a); `tokenized` text is compared as it is, which makes another
    number that its signature (tok:none) tells apart. Case counts; precisions of zero are smoothed (exp).

    Raises:
        DataError: unequal numbers of segments, or references that are not one text each.
    """
    where = f"{name}: " if name else ""
    if isinstance(references, str) or not all(isinstance(text, str) for text in (*hypotheses, *references)):
        raise DataError(f"{where}hypotheses and references must be lists of one text for each segment")
    if len(hypotheses) != len(references):
        raise DataError(f"{where}{len(hypotheses)} hypotheses for {len(references)} references; give one for each")
    if not references:
        raise DataError(f"{where}there is no segment to score")
    bleu, chrf = BLEU(tokenize="none" if tokenized else "13a"), CHRF()
    result = bleu.corpus_score(list(hypotheses), [list(references)])
    return Scores(
        bleu=result.score,
        chrf=chrf.corpus_score(list(hypotheses), [list(references)]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        segments=len(references),
        empty_hypotheses=sum(not text.strip() for text in hypotheses),
        empty_references=sum(not text.strip() for text in references),
        length_ratio=result.sys_len / max(result.ref_len, 1),
    )
