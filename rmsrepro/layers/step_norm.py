"""A norm with running statistics inside a time loop: separate ones for every step (Cooijmans et al. 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def keeps_statistics(norm: nn.Module) -> bool:
    """Say whether `norm` normalises over the batch and so needs its own running statistics at every time step."""
    return "running_mean" in norm._buffers


class StepNorm(nn.Module):
    """Run a batch norm over [B, dim] at every time step with that step's running statistics.

    Gain and shift are shared over time. Steps from `max_steps` on use the last step's statistics, as in the source.
    Rows that are masked out neither enter the statistics nor are normalised by them; a training step with a single
    row left, which has no variance, is normalised by the running statistics. Source: Cooijmans et al. 2016, section 3.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, norm: nn.Module, dim: int, max_steps: int) -> None:
        super().__init__()
        self.dim, self.max_steps = dim, max_steps
        for name in list(norm._buffers):
            # The inner norm works on the step's slice of these; only the whole belongs into a checkpoint.
            start = norm.get_buffer(name)
            delattr(norm, name)
            norm.register_buffer(name, start, persistent=False)
            self.register_buffer(name, torch.stack([start] * max_steps))
        self.norm = norm
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x: Tensor, step: int, mask: Tensor | None = None) -> Tensor:
        """Normalise rows `x` [B, dim] of time step `step`; `mask` [B] is true for the rows that count."""
        if mask is None or bool(mask.all()):
            return self._normalise(x, step, self.training)
        rows = x[mask]
        return torch.zeros_like(x).index_put((mask,), self._normalise(rows, step, self.training and rows.shape[0] > 1))

    def _normalise(self, x: Tensor, step: int, train: bool) -> Tensor:
        row = min(step, self.max_steps - 1)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                setattr(self.norm, name, buffer[row])
        self.norm.train(train)
        return self.norm(x)
