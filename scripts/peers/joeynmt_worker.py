"""Run JoeyNMT block by block:
`python -m peers.joeynmt_worker train|translate FILE`, in an environment that has it.

Training is `joeynmt train`, stopped at each of its own reports; search is what `joeynmt test` does, once a block.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from peers.blocks import Blocks

_config: Any = import_module("joeynmt.config")
_prediction: Any = import_module("joeynmt.prediction")
_training: Any = import_module("joeynmt.training")


def train(path: str, blocks: Blocks) -> None:
    """Train; a block ends with each report."""
    counted = 0

    def report(manager: Any, *figures: Any) -> None:
        nonlocal counted
        tokens, counted = manager.stats.total_tokens - counted, manager.stats.total_tokens
        blocks.done(tokens)

    _training.TrainManager._log_scores = report
    configuration = _config.load_config(path)
    Path(configuration["model_dir"]).mkdir(parents=True, exist_ok=True)
    _training.train(rank=0, world_size=None, cfg=configuration, skip_test=True)


def search(path: str, blocks: Blocks) -> None:
    """Translate the test set, once a block."""
    args = _config.parse_global_args(_config.load_config(path), rank=0, mode="test")
    model, _, _, test = _prediction.prepare(args, rank=0, mode="test")
    while True:
        found = _prediction.predict(
            model, test, device=args.device, n_gpu=0, num_workers=0, args=args.test, autocast=args.autocast
        )
        subwords = found[3]  # of each best translation
        blocks.done(len(subwords), sum(len([*filter(lambda word: word != "</s>", words)]) for words in subwords))


if __name__ == "__main__":
    phase, configuration = sys.argv[1:]
    {"train": train, "translate": search}[phase](configuration, Blocks())
