"""The real command line with the toy task added: imported by tests, or run as a program in place of `-m rmsrepro`."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from hydra.core.config_store import ConfigStore

import rmsrepro.tasks
from rmsrepro import cli
from rmsrepro.compose import compose_config
from rmsrepro.runs.atomic import read_jsonl

HERE = Path(__file__).resolve().parent
rmsrepro.tasks.__path__.append(str(HERE / "toy_tasks"))

from rmsrepro.tasks.toy.config import Config as ToyConfig  # noqa: E402

ConfigStore.instance().store(
    group="task", name="toy", package="_global_", node={"task": asdict(ToyConfig()), "recipe": []}
)
#: Ten epochs of two steps.
BASE = (
    "task=toy",
    "track=none",
    "track.progress=false",
    "track.log_every=3",
    "device=cpu",
    "train.batch_size=32",
    "train.max_steps=20",
    "train.eval_every=4",
    "train.lr=0.01",
    "train.threads=1",
)


def config(*overrides):
    return compose_config([*BASE, *overrides])


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Command:
    """One command in a process of its own, forked by a server that has imported torch (and what its optimisers do)."""

    def __init__(self, *overrides, setup=None):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["toy", "rmsrepro.train.run", "torch._dynamo"])
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name) / name for name in ("out", "err")]
        self._process = context.Process(target=_child, args=([*BASE, *overrides], self._files, setup))
        self._process.start()
        self.pid = self._process.pid

    def wait(self):
        self._process.join(120)
        assert self._process.exitcode is not None, "the command hangs"
        out, err = (path.read_text() for path in self._files)
        return Ended(self._process.exitcode, out, err)

    def running(self):
        return self._process.is_alive()


def command(*overrides, setup=None):
    """Run a command to its end; `setup` is called first, in the command's process."""
    return Command(*overrides, setup=setup).wait()


def _child(argv, files, setup):
    for descriptor, path in zip((1, 2), files, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    if setup is not None:
        setup()
    code = cli.main(argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_dir(root):
    """Return the only run below a runs root."""
    (status,) = Path(root).glob("*/*/*/status.json")
    return status.parent


def status(root):
    return json.loads((run_dir(root) / "status.json").read_text())


def result(root):
    return json.loads((run_dir(root) / "result.json").read_text())


def rows(root):
    """Return the rows of metrics without the times."""
    return [
        {key: value for key, value in row.items() if not key.startswith("time")}
        for row in read_jsonl(run_dir(root) / "metrics.jsonl")
    ]


def checkpoint(root, name="last"):
    return torch.load(run_dir(root) / "checkpoints" / f"{name}.pt", weights_only=True)


def same_tensors(one, other):
    """Say whether two states hold the same names and bit-identical tensors."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


if __name__ == "__main__":
    sys.exit(cli.main([*BASE, *sys.argv[1:]]))
