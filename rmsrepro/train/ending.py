"""Every way in which an attempt at a run can end, as a state, an exit code and one line."""

from __future__ import annotations

import errno
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rmsrepro.errors import UserError
from rmsrepro.runs.rundir import State
from rmsrepro.train.guard import DivergedError
from rmsrepro.train.signals import Interrupted

#: What torch says, in a plain RuntimeError, when main memory is used up, or when no memory could be so large.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")


@dataclass
class Ending:
    """How an attempt ended, for status.json, the log and the terminal."""

    state: State
    code: int
    message: str = ""
    """One line, or nothing where all went well."""
    trace: str = ""
    """The traceback, where the cause is in the program or unknown."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What else the status says."""


def interrupted(number: int, step: int | None) -> Ending:
    """Return the ending by a signal, after `step` saved steps or, with None, before there was anything to save."""
    where = "before the first step" if step is None else f"after step {step}"
    again = "the same command " + ("starts it again" if step is None else "goes on from there")
    return Ending("interrupted", 128 + number, f"{where}; {again}", fields={} if step is None else {"step": step})


def ending_of(error: BaseException, folder: Path, saved_step: int | None) -> Ending:
    """Return the ending that `error` stands for, in a run that writes to `folder` and has saved `saved_step` steps."""
    if isinstance(error, Interrupted):
        return interrupted(error.number, saved_step)
    if isinstance(error, UserError):
        return Ending("failed", 2, str(error))
    if isinstance(error, DivergedError):
        fields = {"step": error.step, "lr": error.lr, "loss": error.loss, "tensors": error.tensors}
        return Ending("diverged", 1, str(error), fields=fields)
    if is_out_of_memory(error):
        return Ending("oom", 1, f"out of memory: {first_line(error)}", _trace(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return Ending(
            "failed",
            1,
            f"cannot write {error.filename or folder} ({error.strerror}); make room, then repeat the command to go on",
        )
    return Ending("failed", 1, f"{type(error).__name__}: {first_line(error)}", _trace(error))


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, cut where it is endless."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether `error` is an allocation that failed, on a CPU or a GPU."""
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
