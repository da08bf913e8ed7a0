"""Flickr8k: 6,000 training, 1,000 development and 1,000 test photographs, five captions each (Hodosh et al. 2013)."""

from __future__ import annotations

from rmsrepro.data.retrieval.data_set import CaptionDataSet

DATA_SET = CaptionDataSet(
    name="flickr8k",
    folders=("flickr8k", "f8k_precomp"),
    origin="ask its makers for the photographs, and `python scripts/extract_features.py` makes the folder of them",
)
