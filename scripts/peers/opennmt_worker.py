"""Run OpenNMT-py block by block:
`python -m peers.opennmt_worker train|translate FILE`, in an environment that has it.

Training is onmt_train's, stopped at each of its own reports; search is onmt_translate's, once a block.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from peers.blocks import Blocks

_train: Any = import_module("onmt.bin.train")
_translate: Any = import_module("onmt.bin.translate")
_engine: Any = import_module("onmt.inference_engine")
_parse: Any = import_module("onmt.utils.parse")
_reports: Any = import_module("onmt.utils.report_manager")


def train(path: str, blocks: Blocks) -> None:
    """Train; a block ends with each report."""

    def report(manager: Any, step: int, steps: int, rate: float, patience: Any, stats: Any) -> None:
        blocks.done(stats.n_words)

    _reports.ReportMgr._report_training = report
    _train.train(_train._get_parser().parse_args(["--config", path]))


def search(path: str, blocks: Blocks) -> None:
    """Translate the test set, once a block."""
    opt = _translate._get_parser().parse_args(["--config", path])
    _parse.ArgumentParser.validate_translate_opts(opt)
    _parse.ArgumentParser._get_all_transform_translate(opt)
    _parse.ArgumentParser._validate_transforms_opts(opt)
    _parse.ArgumentParser.validate_translate_opts_dynamic(opt)
    engine = _engine.InferenceEnginePY(opt)
    while True:
        _, found = engine.infer_file()
        blocks.done(len(found), sum(len(best[0].split()) for best in found))


if __name__ == "__main__":
    phase, configuration = sys.argv[1:]
    {"train": train, "translate": search}[phase](configuration, Blocks())
