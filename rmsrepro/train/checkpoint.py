"""Checkpoints that survive a kill at any moment: written aside, renamed, and the one before is kept."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rmsrepro.errors import UserError

FORMAT = 1


class CheckpointError(UserError):
    """A checkpoint that is whole but of another model or set-up, or a best model that cannot be read."""


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

        Only tensors and plain values are read, so a hostile file runs nothing. Raises PermissionError and
        MemoryError: such a checkpoint may be whole, and going on without it would lose it.
        """
        self._sweep()
        complaints = []
        for path in (self.last, self.previous):
            if not path.exists():
                continue
            try:
                return load(path), complaints
            except (PermissionError, MemoryError):
                raise
            except Exception as error:
                # Anything that a damaged file can raise: it is named, and set aside so that no save rotates it in.
                complaints.append(f"checkpoint {path} cannot be read ({_first_line(error)})")
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".unreadable"))
        return None, complaints

    def load_best(self) -> dict[str, Any]:
        """Return the model that did best; raises CheckpointError where it cannot be read."""
        try:
            return load(self.best)
        except (PermissionError, MemoryError):
            raise
        except Exception as error:
            raise CheckpointError(
                f"checkpoint {self.best} cannot be read ({_first_line(error)}); "
                "train.report=last or runs.overwrite=true do without it"
            ) from error

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
            # A failed write names no file, and torch may wrap what the operating system said in its own errors.
            cause = _os_error(error)
            if cause is None:
                raise
            raise OSError(cause.errno, cause.strerror, str(path)) from error
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


def check_fits(saved: dict[str, Any], model: nn.Module) -> None:
    """Raise CheckpointError, with the names at fault, where `saved` is not the state of such a model."""
    own = model.state_dict()
    faults = {
        "missing": sorted(own.keys() - saved.keys()),
        "unexpected": sorted(saved.keys() - own.keys()),
        "of another shape": sorted(name for name in own.keys() & saved.keys() if own[name].shape != saved[name].shape),
    }
    if any(faults.values()):
        told = "; ".join(f"{fault} {', '.join(names)}" for fault, names in faults.items() if names)
        raise CheckpointError(f"the checkpoint is of another model: {told}; runs.overwrite=true starts anew")


def _os_error(error: BaseException | None) -> OSError | None:
    """Return the operating system's error behind `error`, if there is one."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__
