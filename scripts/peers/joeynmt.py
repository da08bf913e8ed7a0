"""JoeyNMT's configuration of a compared model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.corpus import SIDES, Corpus
from peers.sizes import BEAM, LABEL_SMOOTHING, LEARNING_RATE, SEARCH_SENTENCES, SEED, Length, Model

_NEVER = 10**6


def configurations(model: Model, corpus: Corpus, length: Length, folder: Path) -> dict[str, Any]:
    """Return the YAML file that serves training and search."""
    side = {"level": "word", "lowercase": False, "voc_file": str(corpus.vocabulary)}
    configuration = {
        "name": "compared",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "num_workers": 0,
        "random_seed": SEED,
        "normalization": "tokens",
        "data": {
            **{split: str(corpus.folder / split) for split in ("train", "test")},
            "dev": str(corpus.folder / "valid"),
            "dataset_type": "plain",
            **{name: side | {"lang": suffix} for name, suffix in zip(("src", "trg"), SIDES, strict=True)},
        },
        "training": {
            "optimizer": "adam",
            "learning_rate": LEARNING_RATE,
            "learning_rate_min": 0.0,
            "scheduling": "decaying",  # never: it has no schedule that is called constant
            "decaying_step_size": _NEVER,
            "label_smoothing": LABEL_SMOOTHING,
            "batch_size": model.batch,
            "batch_type": "token" if model.kind == "transformer" else "sentence",
            "updates": length.total,
            "epochs": _NEVER,
            "logging_freq": length.steps,
            "validation_freq": _NEVER * length.steps,
            "print_valid_sents": [],
        },
        "testing": {
            "load_model": str(folder / "model" / f"{length.total}.ckpt"),
            "beam_size": BEAM,
            "beam_alpha": 1.0,
            "batch_size": SEARCH_SENTENCES,
            "batch_type": "sentence",
            "eval_metrics": [],
        },
        "model": _transformer(model) if model.kind == "transformer" else _rnn(model),
    }
    if model.clip_norm:
        configuration["training"]["clip_grad_norm"] = model.clip_norm
    return {"train": configuration, "translate": configuration}


def _transformer(model: Model) -> dict[str, Any]:
    part = {
        "type": "transformer",
        "num_layers": model.layers,
        "num_heads": model.heads,
        "embeddings": {"embedding_dim": model.width, "scale": True, "dropout": model.dropout},
        "hidden_size": model.width,
        "ff_size": model.ffn,
        "dropout": model.dropout,
        "layer_norm": "post",
    }
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": part,
        "decoder": part,
    }


def _rnn(model: Model) -> dict[str, Any]:
    part = {
        "type": "recurrent",
        "rnn_type": "gru",
        "embeddings": {"embedding_dim": model.width, "dropout": model.dropout},
        "hidden_size": model.width,
        "num_layers": model.layers,
        "dropout": model.dropout,
    }
    decoder = {"hidden_dropout": model.dropout, "attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge"}
    return {"encoder": part | {"bidirectional": True}, "decoder": part | decoder}
