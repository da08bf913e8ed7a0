"""Checkpoints that survive a kill at any moment: written aside, renamed, and the one before is kept."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch

FORMAT = 1


class CheckpointStore:
    """The checkpoints of one run: `last.pt`, the one before it in `previous.pt`, and `best.pt`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last, self.previous, self.best = (folder / f"{name}.pt" for name in ("last", "previous", "best"))

    def save(self, state: dict[str, Any]) -> None:
        """Write `state` as the newest checkpoint; raises OSError, with the older ones intact, where it cannot."""
        fresh = self._write_aside(self.last, {"format": FORMAT, **state})
        # Between the two renames only `previous` exists, and it is whole.
        if self.last.exists():
            self.last.replace(self.previous)
        fresh.replace(self.last)

    def save_best(self, state: dict[str, Any]) -> None:
        """Write the model that did best on the validation data."""
        self._write_aside(self.best, {"format": FORMAT, **state}).replace(self.best)

    def load_newest(self) -> tuple[dict[str, Any] | None, list[str]]:
        """Return the newest checkpoint that can be read, and a line about each that cannot.

        Only tensors and plain values are read, so a hostile file runs nothing.
        """
        self._sweep()
        complaints = []
        for path in (self.last, self.previous):
            if not path.exists():
                continue
            try:
                return load(path), complaints
            except Exception as error:
                # Anything that a damaged file can raise: it is named, and set aside so that no save rotates it in.
                complaints.append(f"checkpoint {path} cannot be read ({_first_line(error)})")
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".unreadable"))
        return None, complaints

    def discard_last(self) -> None:
        """Remove what only resuming needs; the run is done."""
        for path in (self.previous,):
            path.unlink(missing_ok=True)

    def _write_aside(self, path: Path, state: dict[str, Any]) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".tmp{os.getpid()}")
        try:
            with aside.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            aside.unlink(missing_ok=True)
            # torch reports a full disk as a RuntimeError of its zip writer.
            if isinstance(error, RuntimeError):
                raise OSError(f"cannot write {path}: {_first_line(error)}") from error
            raise
        return aside

    def _sweep(self) -> None:
        for leftover in self.folder.glob("*.tmp*"):
            leftover.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """Read one checkpoint onto the CPU, tensors and plain values only."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError("it is not a checkpoint of this format")
    return state


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
