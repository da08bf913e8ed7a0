"""Time an epoch of the MNIST MLP: this project's trainer against torchvision and a DataLoader, interleaved.

    python scripts/compare_dataloader.py [--rounds 5] [--steps 100]

Both train the same model (rmsnorm, batch 128) with the same fused Adam. The second row's loop is the one of the
PyTorch tutorials: torchvision's MNIST with ToTensor and Normalize, and a DataLoader with its default of no workers.
The third row is that loop with Adam's defaults, as a person would write it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision import datasets, transforms

from rmsrepro.compose import compose_config
from rmsrepro.data.root import data_root
from rmsrepro.norms.factory import NormFactory
from rmsrepro.runs.machine import hardware
from rmsrepro.tasks.base import Task, build_task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Hooks, Trainer

TRAIN_IMAGES, BATCH = 55_000, 128


def ours(task: Task, factory: NormFactory, steps: int) -> Callable[[], float]:
    """Return a function that trains `steps` steps with the project's trainer and gives the seconds."""
    silent = Hooks(
        on_rows=lambda step, row: None,
        on_step=lambda step, loss: None,
        save=lambda state: None,
        save_best=lambda state: None,
        wants_save=lambda step: False,
        stop_signal=lambda: 0,
    )
    trainer = Trainer(task, task.build_model(factory), task.cfg, torch.device("cpu"), World())

    def run() -> float:
        before = trainer.timer.train_s
        trainer.total_steps = trainer.step + steps
        # The loop's last step always evaluates, which is no part of an epoch's training: its own clock leaves it out.
        trainer.run(silent)
        return trainer.timer.train_s - before

    return run


def dataloader(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator, steps: int
) -> Callable[[], float]:
    """Return a function that trains `steps` steps of the tutorial's loop and gives the seconds."""

    def run() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            images, labels = next(batches)
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        return time.perf_counter() - start

    return run


def endless_batches(root: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield torchvision's MNIST through a DataLoader with default workers, epoch after epoch."""
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    train = torch.utils.data.Subset(datasets.MNIST(str(root), transform=transform), range(TRAIN_IMAGES))
    loader = torch.utils.data.DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True)
    while True:
        yield from loader


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    cfg = compose_config(["task=mnist", "norm=rmsnorm", "train.epochs=1000.0", "train.eval_every=0"])
    factory = NormFactory(cfg.norm, cfg.impl)
    task = build_task(cfg, torch.device("cpu"))
    task.load()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "MNIST" / "raw"
        raw.mkdir(parents=True)
        for file in (data_root() / "mnist").glob("*ubyte*"):
            (raw / file.name).symlink_to(file.resolve())
        batches = endless_batches(Path(folder))
        fused, plain = task.build_model(factory), task.build_model(factory)
        arms = {
            "trainer": ours(task, factory, arguments.steps),
            "DataLoader, fused Adam": dataloader(
                fused, torch.optim.Adam(fused.parameters(), fused=True), batches, arguments.steps
            ),
            "DataLoader, default Adam": dataloader(
                plain, torch.optim.Adam(plain.parameters()), batches, arguments.steps
            ),
        }
        for run in arms.values():
            run()  # warm-up
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        order = np.random.default_rng(0)
        for _ in range(arguments.rounds):
            for name in order.permutation(list(arms)):
                seconds[name].append(arms[name]())
    steps_per_epoch = TRAIN_IMAGES // BATCH
    print(
        f"{hardware()['cpu']}, {torch.get_num_threads()} threads, torch {torch.__version__}, {arguments.rounds} rounds"
    )
    for name, times in seconds.items():
        ratios = np.array(times) / np.array(seconds["trainer"])
        epoch_s = np.median(times) / arguments.steps * steps_per_epoch
        spread = f"{np.median(ratios):.2f} x trainer ({ratios.min():.2f}-{ratios.max():.2f})"
        print(f"{name:>25}: epoch {epoch_s:6.2f} s, {spread}")


if __name__ == "__main__":
    main()
