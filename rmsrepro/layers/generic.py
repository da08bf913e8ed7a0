"""The time loops, one torch operation after another: they serve every norm and are the reference for the fast path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rmsrepro.layers.options import GRUOptions, LSTMOptions
from rmsrepro.layers.projection import Projection, SiteNorm


@dataclass
class Cell:
    """One layer in one direction: its two projections and, for an LSTM, the norm of its cell state."""

    input: Projection
    hidden: Projection
    size: int
    cell_norm: SiteNorm | None = None

    @property
    def by_step(self) -> bool:
        """Whether the norms differ from step to step, so that a step must know its number."""
        return self.input.by_step or self.hidden.by_step or (self.cell_norm is not None and self.cell_norm.by_step)


State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, int, Tensor | None], State]


def lstm_loop(
    x: Tensor, state: State, cell: Cell, options: LSTMOptions, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Run an LSTM over `x` [T, B, in] from `state` = (h, c), each [B, H]; return outputs [T, B, H] and the last state.

    `mask` [T, B] is true where a step counts; elsewhere the state is carried. Gates are i, f, g, o as in torch.
    Source: paper section 2.3 for the norms' places; Ba et al. 2016, supplement equations 20 to 22.
    """

    def step(a: Tensor, state: State, t: int, rows: Tensor | None) -> State:
        h, c = state
        a = a + cell.hidden.finish(cell.hidden.linear(h), t, rows)
        if options.repeat_bias and cell.input.inner_bias is not None:
            a = a + cell.input.inner_bias
        i, f, g, o = a.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        out = c if cell.cell_norm is None else cell.cell_norm(c, t, rows)
        return o.sigmoid() * out.tanh(), c

    return time_loop(x, state, cell.input, options.hoist_input, mask, reverse, step)


def gru_loop(
    x: Tensor, state: State, cell: Cell, options: GRUOptions, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Run a GRU over `x` [T, B, in] from `state` = (h,), [B, H]; return outputs [T, B, H] and the last state.

    `mask` [T, B] is true where a step counts; elsewhere the state is carried. Gates are r, z, n as in torch.
    Source: paper sections 2.1 and 2.4.
    """

    def step(a: Tensor, state: State, t: int, rows: Tensor | None) -> State:
        return (gru_step(a, state[0], cell, options, t, rows),)

    return time_loop(x, state, cell.input, options.hoist_input, mask, reverse, step)


def gru_step(a: Tensor, h: Tensor, cell: Cell, options: GRUOptions, t: int, rows: Tensor | None) -> Tensor:
    """Take one step of a GRU from `h` [B, H], given its input's finished projection `a` [B, 3 H]; return [B, H]."""
    gates, hidden = 2 * cell.size, cell.hidden
    if options.reset == "after":
        b = hidden.finish(hidden.linear(h), t, rows)
        r, z = (a[..., :gates] + b[..., :gates]).sigmoid().chunk(2, dim=-1)
        n = (a[..., gates:] + r * b[..., gates:]).tanh()
    else:
        b = hidden.finish(hidden.linear(h, slice(0, gates)), t, rows)
        r, z = (a[..., :gates] + b).sigmoid().chunk(2, dim=-1)
        b = hidden.finish(hidden.linear(r * h, slice(gates, None)), t, rows, first=gates)
        n = (a[..., gates:] + b).tanh()
    return (1 - z) * n + z * h


def time_loop(
    x: Tensor,
    state: State,
    projection: Projection,
    hoist: bool,
    mask: Tensor | None,
    reverse: bool,
    step: Step,
    first_step: int = 0,
) -> tuple[Tensor, State]:
    """Take `step` at every position of `x` [T, B, in], whose `projection` it is given; return as the loops above.

    Steps are numbered from `first_step` on.
    """
    length = x.shape[0]
    a = projection.linear(x)  # [T, B, G * H]
    hoist = hoist and not projection.by_step
    if hoist:
        a = projection.finish(a)
    outputs: list[Tensor] = [x.new_empty(0)] * length
    for number in range(length):  # the step's number counts in the direction of the recurrence
        t = length - 1 - number if reverse else number
        rows = None if mask is None else mask[t]
        at = first_step + number
        new = step(a[t] if hoist else projection.finish(a[t], at, rows), state, at, rows)
        if rows is not None:
            new = tuple(torch.where(rows.unsqueeze(1), n, old) for n, old in zip(new, state, strict=True))
        state = new
        outputs[t] = state[0]
    return torch.stack(outputs), state
