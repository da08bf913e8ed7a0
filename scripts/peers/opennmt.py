"""OpenNMT-py's configuration of a compared model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers.corpus import Corpus
from peers.sizes import BEAM, LABEL_SMOOTHING, LEARNING_RATE, LONGEST, SEARCH_SENTENCES, SEED, Length, Model

_NEVER = 10**9


def configurations(model: Model, corpus: Corpus, length: Length, folder: Path) -> dict[str, Any]:
    """Return the YAML files of onmt_train and onmt_translate."""
    train = {
        "data": {
            "corpus": {
                "path_src": str(corpus.file("train", "src")),
                "path_tgt": str(corpus.file("train", "tgt")),
                "transforms": [],
            }
        },
        "src_vocab": str(corpus.vocabulary),
        "tgt_vocab": str(corpus.vocabulary),
        "share_vocab": True,
        "src_vocab_size": 10 * corpus.subwords,
        "tgt_vocab_size": 10 * corpus.subwords,
        "save_model": str(folder / "model"),
        "seed": SEED,
        "num_workers": 0,
        "bucket_size": corpus.train_pairs,
        "batch_size": model.batch,
        "batch_size_multiple": 1,
        "normalization": "tokens",
        "optim": "adam",
        "learning_rate": LEARNING_RATE,
        "decay_method": "none",
        "learning_rate_decay": 1.0,
        "max_grad_norm": model.clip_norm or 0,
        "label_smoothing": LABEL_SMOOTHING,
        "train_steps": length.total,
        "report_every": length.steps,
        "valid_steps": _NEVER,
        "save_checkpoint_steps": _NEVER,
        "hidden_size": model.width,
        "word_vec_size": model.width,
        "layers": model.layers,
        "dropout": [model.dropout],
        "attention_dropout": [0.0],
    }
    if model.kind == "transformer":
        train |= {
            "encoder_type": "transformer",
            "decoder_type": "transformer",
            "batch_type": "tokens",
            "heads": model.heads,
            "transformer_ff": model.ffn,
            "position_encoding": True,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "param_init": 0.0,
            "param_init_glorot": True,
        }
    else:
        train |= {
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "GRU",
            "batch_type": "sents",
            "global_attention": "mlp",
        }
    translate = {
        "model": [str(folder / f"model_step_{length.total}.pt")],
        "src": str(corpus.file("test", "src")),
        "output": str(folder / "translations.txt"),
        "beam_size": BEAM,
        "length_penalty": "avg",
        "max_length_ratio": LONGEST,
        "batch_type": "sents",
        "batch_size": SEARCH_SENTENCES,
        "gpu": -1,
        "world_size": 0,
    }
    return {"train": train, "translate": translate}
