"""MS-COCO captions, Karpathy's split: 113,287 training, 5,000 development and 5,000 test images (Lin et al. 2014)."""

from __future__ import annotations

from rmsrepro.data.retrieval.data_set import CaptionDataSet

DATA_SET = CaptionDataSet(
    name="coco",
    folders=("coco", "coco_precomp"),
    origin=(
        "unpack order-embedding's coco.zip (cs.toronto.edu/~vendrov/order) or coco_precomp of VSE++ "
        "(cs.toronto.edu/~faghri/vsepp) there, or make it with `python scripts/extract_features.py`"
    ),
)
