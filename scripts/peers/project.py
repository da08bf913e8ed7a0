"""This project's configuration of a compared model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers.corpus import Corpus
from peers.sizes import BEAM, LABEL_SMOOTHING, LEARNING_RATE, LONGEST, SEARCH_SENTENCES, SEED, Length, Model


def configurations(
    model: Model, norm: str, data: Sequence[str], corpus: Corpus, length: Length, folder: Path
) -> dict[str, Any]:
    """Return what the worker reads in both phases: overrides, the length, and where the model is saved.

    It has one step more than is trained, as an evaluation follows the last one.
    """
    overrides = [
        f"norm={norm}",
        "size=small",
        *data,
        f"seed={SEED}",
        f"task.dropout={model.dropout}",
        f"task.label_smoothing={LABEL_SMOOTHING}",
        f"task.search.beam={BEAM}",
        f"task.search.sentences={SEARCH_SENTENCES}",
        f"task.search.max_length_factor={LONGEST}",
        "task.search.max_length_extra=5",
        f"train.lr={LEARNING_RATE}",
        "train.schedule=constant",
        "train.warmup_steps=0",
        "train.eval_every=0",
        f"train.max_steps={length.total + 1}",
        f"train.clip_norm={'null' if model.clip_norm is None else model.clip_norm}",
    ]
    if model.kind == "transformer":
        overrides += [
            "task=transformer",
            f"task.dim={model.width}",
            f"task.ffn={model.ffn}",
            f"task.heads={model.heads}",
            f"task.encoder_layers={model.layers}",
            f"task.decoder_layers={model.layers}",
            f"task.batch_tokens={model.batch}",
            f"task.relu_dropout={model.dropout}",
            "task.share_embeddings=all",
        ]
    else:
        overrides += [
            "task=rnnsearch",
            f"task.embedding={model.width}",
            f"task.hidden={model.width}",
            f"train.batch_size={model.batch}",
        ]
    settings = {
        "overrides": overrides,
        "steps": length.steps,
        "total": length.total,
        "test_sentences": corpus.test_sentences,
        "model": str(folder / "model.pt"),
    }
    return {"train": settings, "translate": settings}
