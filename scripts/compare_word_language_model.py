"""Training tokens per second: this project's language model against a stock nn.LSTM one, interleaved.

    python scripts/compare_word_language_model.py --data wikitext2 [--norms none rmsnorm] [--rounds 5] [--steps 10]
    python scripts/compare_word_language_model.py --data brown --match 400 [--seeds 1 2 3]

The stock arm is the plain PyTorch way to write the tied model of pytorch/examples word_language_model (nn.Embedding,
nn.LSTM, nn.Linear with the embedding's weight, log-softmax and NLL loss, clip_grad_norm_, p += -lr * grad): the same
sizes, dropout, data, batches and machine. Time is that of training steps; evaluation is in neither arm. On a machine
that others use too, `--threads 1` and the second figure, from the processor time of this process, say more.

`--match STEPS` compares quality instead: both models, without norm, take as many SGD steps on the same batches, their
rate falling to zero along one cosine, and their validation perplexities stand side by side. (At a constant rate of 20
the last step's noise is larger than any difference.)
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from rmsrepro.compose import compose_config
from rmsrepro.norms.factory import NormFactory
from rmsrepro.runs.machine import hardware
from rmsrepro.tasks.lstm_lm.task import Task
from rmsrepro.train.distributed import World
from rmsrepro.train.loop import Hooks, Trainer
from rmsrepro.train.schedule import lr_at

_LR, _CLIP = 20.0, 0.25
_STOCK = "stock nn.LSTM"


class StockModel(nn.Module):
    """Embedding, dropout, nn.LSTM, dropout, tied linear map, log-softmax."""

    def __init__(self, vocabulary: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocabulary)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Map tokens [T, B] to log-probabilities [T * B, V]."""
        output, state = self.rnn(self.drop(self.encoder(tokens)), state)
        return torch.log_softmax(self.decoder(self.drop(output)).flatten(0, 1), dim=1), state


class TrainingOnly(Task):
    """The language model without its evaluation, which the trainer calls after the last step of a block."""

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        """Measure nothing."""
        return {"valid/loss": 0.0}

    def measure(self, model: nn.Module) -> float:
        """Return the mean loss over the validation text."""
        return super().evaluate(model, "valid")["valid/loss"]


def stock(task: Task, steps: int, seed: int = 1, *, anneal: bool = False) -> tuple[Callable[[], None], StockModel]:
    """Return a function that trains `steps` steps of the stock loop, and the model that it trains."""
    settings = task.settings
    torch.manual_seed(seed)
    model = StockModel(len(task.corpus.vocabulary), settings.hidden, settings.layers, settings.dropout)
    criterion = nn.NLLLoss()
    done, state = 0, None

    def run() -> None:
        nonlocal done, state
        for _ in range(steps):
            tokens, targets = task.batch(0, done % task.batches_per_epoch()).inputs
            state = None if state is None else tuple(part.detach() for part in state)
            model.zero_grad()
            output, state = model(tokens, state)
            loss = criterion(output, targets.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
            with torch.no_grad():
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.add_(parameter.grad, alpha=-lr_at(done, steps, task.cfg.train) if anneal else -_LR)
            loss.item()
            done += 1

    return run, model


@torch.no_grad()
def stock_loss(model: StockModel, ids: Tensor, piece: int = 700) -> float:
    """Return the stock model's mean loss over a stream [N], the state carried from end to end."""
    model.eval()
    total, state = 0.0, None
    for start in range(0, len(ids) - 1, piece):
        part = ids[start : start + piece + 1].unsqueeze(1)
        output, state = model(part[:-1], state)
        total += nn.functional.nll_loss(output, part[1:].flatten(), reduction="sum").item()
    return total / (len(ids) - 1)


def match(task: TrainingOnly, steps: int, seeds: list[int]) -> None:
    """Print both models' validation perplexity after as many steps, seed by seed."""
    for seed in seeds:
        train_stock, stock_model = stock(task, steps, seed, anneal=True)
        train_ours, trainer = ours(task, "none", steps, seed)
        train_stock()
        train_ours()
        ids = torch.from_numpy(task.corpus.streams["valid"].ids).long()
        losses = stock_loss(stock_model, ids), task.measure(trainer.model.eval())
        print(f"seed {seed}: stock {math.exp(losses[0]):.1f}, rmsrepro {math.exp(losses[1]):.1f}", flush=True)


def ours(task: Task, norm: str, steps: int, seed: int = 1) -> tuple[Callable[[], None], Trainer]:
    """Return a function that trains `steps` steps with the project's trainer, and the trainer."""
    silent = Hooks(
        on_rows=lambda step, row: None,
        on_step=lambda step, loss: None,
        save=lambda state: None,
        save_best=lambda state: None,
        wants_save=lambda step: False,
        stop_signal=lambda: 0,
    )
    cfg = compose_config(["task=lstm_lm", f"norm={norm}"])
    torch.manual_seed(seed)
    trainer = Trainer(task, task.build_model(NormFactory(cfg.norm, cfg.impl)), task.cfg, torch.device("cpu"), World())

    def run() -> None:
        trainer.total_steps = trainer.step + steps
        trainer.run(silent)

    return run, trainer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="wikitext2")
    parser.add_argument("--root", help="the data root")
    parser.add_argument("--norms", nargs="+", default=["none", "rmsnorm"])
    parser.add_argument("--hidden", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--match", type=int, metavar="STEPS")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    overrides = [
        "task=lstm_lm",
        "norm=none",
        f"data={arguments.data}",
        f"task.hidden={arguments.hidden}",
        "task.test_split=valid",
    ]
    overrides += ["train.eval_every=0", "train.epochs=1000.0"]
    if arguments.match:
        overrides += ["train.schedule=cosine"]
    cfg = compose_config(overrides + ([f"data.root={arguments.root}"] if arguments.root else []))
    task = TrainingOnly(cfg, torch.device("cpu"))
    task.load()
    if arguments.match:
        match(task, arguments.match, arguments.seeds)
        return
    arms = {_STOCK: stock(task, arguments.steps)[0]}
    arms |= {f"rmsrepro {norm}": ours(task, norm, arguments.steps)[0] for norm in arguments.norms}
    for run in arms.values():
        run()  # warm-up
    clocks = {"elapsed": time.perf_counter, "processor": time.process_time}
    seconds: dict[tuple[str, str], list[float]] = {(clock, name): [] for clock in clocks for name in arms}
    order = np.random.default_rng(0)
    for _ in range(arguments.rounds):
        for name in order.permutation(list(arms)):
            before = {clock: read() for clock, read in clocks.items()}
            arms[name]()
            for clock, read in clocks.items():
                seconds[clock, name].append(read() - before[clock])
    print(f"{arguments.data}, {len(task.corpus.vocabulary)} words, 2 x {arguments.hidden}")
    print(f"{hardware()['cpu']}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(f"{arguments.rounds} rounds of {arguments.steps} steps, range of the rounds in brackets")
    tokens = arguments.steps * cfg.train.batch_size * task.settings.bptt
    for name in arms:
        row = f"{name:>20}:"
        for clock in clocks:
            times = np.array(seconds[clock, name])
            speedups = np.array(seconds[clock, _STOCK]) / times
            row += f" {tokens / np.median(times):7.0f} tokens per {clock} s, {np.median(speedups):.2f} x stock"
            row += f" ({speedups.min():.2f}-{speedups.max():.2f})"
        print(row)


if __name__ == "__main__":
    main()
