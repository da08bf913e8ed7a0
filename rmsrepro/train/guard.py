"""Stop at the first number that is not finite, and say where it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn


class DivergedError(RuntimeError):
    """Training produced a number that is not finite; `step` counts from 1, as the rows of metrics do."""

    def __init__(self, what: str, step: int, lr: float, loss: float, names: Sequence[str]) -> None:
        self.what, self.step, self.lr, self.loss, self.tensors = what, step, lr, loss, list(names)
        named = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        # All numbers of a gradient may be finite while the sum of their squares is not.
        rest = "only the gradient's norm" if math.isfinite(loss) else "only the loss"
        super().__init__(f"{what} at step {step}, learning rate {lr:.6g}; not finite: {named or rest}")

    def __reduce__(self) -> tuple[type[DivergedError], tuple[str, int, float, float, list[str]]]:
        """Pickle what the error was made of, for the other processes."""
        return DivergedError, (self.what, self.step, self.lr, self.loss, self.tensors)


def nonfinite_tensors(model: nn.Module) -> list[str]:
    """Name every parameter, buffer and gradient of `model` that holds an infinity or a NaN."""
    return [name for name, tensor in _tensors(model) if not tensor.isfinite().all()]


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        yield name, parameter.detach()
        if parameter.grad is not None:
            yield f"{name}.grad", parameter.grad
    for name, buffer in model.named_buffers():
        if torch.is_floating_point(buffer):
            yield name, buffer


def diverged(what: str, model: nn.Module, step: int, lr: float, loss: float) -> DivergedError:
    """Build the error that names the tensors of `model` at fault."""
    return DivergedError(what, step, lr, loss, nonfinite_tensors(model))


def bad_state(model: nn.Module, step: int, lr: float, loss: float) -> DivergedError | None:
    """Return the error where a parameter or buffer (not a gradient) is not finite."""
    bad = [name for name in nonfinite_tensors(model) if not name.endswith(".grad")]
    return DivergedError("the model's state is not finite", step, lr, loss, bad) if bad else None
