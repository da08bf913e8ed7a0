"""One arm of a comparison: a worker process that works a block when it is told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(__file__).parent.parent


class ArmError(Exception):
    """A worker has ended; the message is its last words and where the others are."""


@dataclass(frozen=True)
class Block:
    """What one block took: `items` are target tokens in training, sentences in search."""

    items: int
    elapsed: float
    processor: float
    tokens: int | None

    def rate(self, clock: str) -> float:
        """Return items per second of the `elapsed` or `processor` clock."""
        return self.items / getattr(self, clock)


class Arm:
    """A worker: `block` lets it work, and waits; `finish` lets it save its model and leave."""

    def __init__(self, python: Path, worker: str, arguments: Sequence[str], threads: int, log: Path) -> None:
        command = [str(python), "-m", f"peers.{worker}_worker", *arguments]
        environment = os.environ | _variables(threads, own=str(python) == sys.executable)
        self._log = log
        with log.open("w") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, env=environment, text=True
            )

    def block(self) -> Block:
        """Let the worker work one block.

        Raises:
            ArmError: it has ended instead.
        """
        self._go()
        assert self._process.stdout
        answer = self._process.stdout.readline()
        if not answer:
            self.stop()
            raise ArmError(self._last_words())
        return Block(**json.loads(answer))

    def finish(self) -> None:
        """Let the worker do what follows its last block, and wait until it has ended.

        Raises:
            ArmError: it has failed.
        """
        self._go()
        if self._process.wait():
            raise ArmError(self._last_words())

    def stop(self) -> None:
        """End the worker."""
        self._process.kill()
        self._process.wait()

    def _go(self) -> None:
        assert self._process.stdin
        try:
            print("go", file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise ArmError(self._last_words()) from None

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return f"{next((line.strip() for line in reversed(lines) if line.strip()), 'it said nothing')} ({self._log})"


def _variables(threads: int, own: bool) -> dict[str, str]:
    """Return the variables of a worker; one in another environment must not see what this Python sees."""
    count = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    inherited = os.environ.get("PYTHONPATH") if own else None
    path = os.pathsep.join(filter(None, (str(_SCRIPTS), inherited)))
    return count | {"PYTHONPATH": path, "PYTHONNOUSERSITE": "1", "CUDA_VISIBLE_DEVICES": ""}
