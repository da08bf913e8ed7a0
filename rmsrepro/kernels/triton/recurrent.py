"""The recurrent layers on a GPU: per step one product and one kernel, on the way back one more for the state's norm.

The same tensors and results as the CPU kernels. What does not feed the next step is left to few operations over all
steps after the loop: the norm of the input's projection, the weights', gains' and biases' gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from rmsrepro.kernels.recurrent import RecurrentGrads, RecurrentSaved, RecurrentSpec, RecurrentTensors
from rmsrepro.kernels.spec import NormSpec
from rmsrepro.kernels.triton import recurrent_steps as steps_of


def forward(spec: RecurrentSpec, t: RecurrentTensors, keep: bool) -> RecurrentSaved:
    """Run all steps; `keep` is of no consequence, as the kernels write what the way back needs in any case."""
    steps, batch, width = t.x.shape
    size = t.h0.shape[1]
    n = spec.gates * size
    a = t.x.reshape(steps * batch, width) @ t.input_weight.t()
    a = (a if t.input_bias is None else a + t.input_bias).view(steps, batch, n)
    start = steps if t.reverse else 0
    h = a.new_empty(steps + 1, batch, size)
    h[start] = t.h0
    c = torch.empty_like(h)
    if t.c0 is not None:
        c[start] = t.c0
    stats = tuple(a.new_zeros(steps, batch, 2, 2) for _ in range(3))
    saved = RecurrentSaved(a, h, c if t.c0 is not None else None, torch.empty_like(a), torch.empty_like(a), stats)
    gains, bias, candidate_bias = _gains(spec, t), _or(t.bias, a, n, 0.0), _or(t.candidate_bias, a, size, 0.0)
    x_norms, u_norms = (*spec.input, None)[:2], (*spec.hidden, None)[:2]
    numbers = [*(norm.k if norm else 1 for norm in (*x_norms, *u_norms, spec.cell))]
    numbers += [norm.eps if norm else 0.0 for norm in (*x_norms, *u_norms, spec.cell)]
    flags = [_flags(norm) for norm in (*x_norms, *u_norms, spec.cell)]
    weight = t.weight.t()
    for number in range(steps if batch else 0):
        at, before, after = _place(steps, number, t.reverse)
        u = saved.hidden[at]
        torch.mm(h[before], weight, out=u)
        if t.hidden_bias is not None:
            u += t.hidden_bias
        _launch(
            steps_of.forward_step,
            batch,
            size,
            *(a[at], u, gains[0], gains[1], bias, candidate_bias, gains[2], gains[3]),
            *(h[before], c[before], h[after], c[after], saved.gates[at], stats[0][at], stats[1][at], stats[2][at]),
            *(a if t.mask is None else t.mask[at], size, *numbers, spec.gates, *flags, t.mask is not None),
        )
    return saved


def backward(
    spec: RecurrentSpec,
    t: RecurrentTensors,
    saved: RecurrentSaved,
    dy: Tensor | None,
    dh: Tensor | None,
    dc: Tensor | None,
    want_x: bool,
) -> RecurrentGrads:
    """Return all gradients from those of the outputs `dy` [T, B, H] and of the last states, each None where zero."""
    steps, batch, n = saved.input.shape
    size = t.h0.shape[1]
    dh = torch.zeros_like(t.h0) if dh is None else dh.clone(memory_format=torch.contiguous_format)
    dc = torch.zeros_like(t.h0) if dc is None else dc.clone(memory_format=torch.contiguous_format)
    dy = None if dy is None else dy.contiguous()
    input_gain, hidden_gain, cell_gain, cell_shift = _gains(spec, t)
    dpre, dhidden = torch.empty_like(saved.input), torch.empty_like(saved.input)
    dpre_h = torch.empty_like(dpre) if spec.gates == 3 else dpre
    dout = saved.h.new_empty(steps, batch, size)
    plain = all(norm is None for norm in spec.hidden)
    from_h = dout
    if spec.gates == 3:
        from_h = _hat(spec.hidden, spec, saved.hidden, saved.stats[1])[..., 2 * size :] * hidden_gain[2 * size :]
        from_h = (from_h if t.candidate_bias is None else from_h + t.candidate_bias).contiguous()
    for number in reversed(range(steps if batch else 0)):
        at, before, after = _place(steps, number, t.reverse)
        ends = (dy is not None, t.mask is not None)
        given, mask = (dh if dy is None else dy[at]), (dh if t.mask is None else t.mask[at])
        if spec.gates == 4:
            assert saved.c is not None
            k, eps = (spec.cell.k, spec.cell.eps) if spec.cell else (1, 0.0)
            _launch(
                steps_of.lstm_backward_step,
                batch,
                size,
                *(saved.gates[at], saved.c[before], saved.c[after], saved.stats[2][at], cell_gain, cell_shift),
                *(given, dh, dc, dpre[at], dout[at], mask, size, k, eps, _flags(spec.cell), *ends),
            )
        else:
            _launch(
                steps_of.gru_backward_step,
                batch,
                size,
                *(saved.gates[at], saved.h[before], from_h[at], given, dh, dpre[at], dpre_h[at], mask, size, *ends),
            )
        for group, norm in enumerate(spec.hidden):
            first, last = spec.groups[group]
            if norm is None:
                dhidden[at, :, first * size : last * size] = dpre_h[at, :, first * size : last * size]
            else:
                _launch(
                    steps_of.norm_backward_step,
                    batch,
                    size,
                    *(dpre_h[at], saved.hidden[at], saved.stats[1][at], hidden_gain, dhidden[at]),
                    *(size, norm.k, norm.eps, n, group, first, last, _flags(norm)),
                )
        dh.addmm_(dhidden[at], t.weight)
    x_hat, u_hat = (
        _hat(norms, spec, rows, stat)
        for norms, rows, stat in (
            (spec.input, saved.input, saved.stats[0]),
            (spec.hidden, saved.hidden, saved.stats[1]),
        )
    )
    dinput = _through(spec.input, spec, dpre, x_hat, saved.stats[0], input_gain).view(steps * batch, n)
    dhidden = dpre_h if plain else dhidden
    before_rows = (saved.h[1:] if t.reverse else saved.h[:-1]).reshape(steps * batch, size)
    rows = dhidden.view(steps * batch, n)
    c_hat = dout
    if spec.gates == 4 and saved.c is not None and spec.cell is not None:
        c_after = saved.c[:-1] if t.reverse else saved.c[1:]
        c_hat = (c_after - saved.stats[2][..., 0, 0:1]) * saved.stats[2][..., 0, 1:2]
    return RecurrentGrads(
        x=(dinput @ t.input_weight).view(t.x.shape) if want_x else None,
        input_weight=dinput.t() @ t.x.reshape(steps * batch, t.x.shape[-1]),
        input_bias=None if t.input_bias is None else dinput.sum(0),
        weight=rows.t() @ before_rows,
        h0=dh,
        c0=None if t.c0 is None else dc,
        bias=dpre.sum((0, 1)),
        candidate_bias=dpre_h[..., n - size :].sum((0, 1)),
        hidden_bias=None if t.hidden_bias is None else rows.sum(0),
        input_gain=(dpre * x_hat).sum((0, 1)),
        hidden_gain=(dpre_h * u_hat).sum((0, 1)),
        cell_gain=(dout * c_hat).sum((0, 1)),
        cell_shift=dout.sum((0, 1)),
    )


def _place(steps: int, number: int, reverse: bool) -> tuple[int, int, int]:
    """Return the time of step `number`, and where the states before and after it lie."""
    at = steps - 1 - number if reverse else number
    return at, at + reverse, at + (not reverse)


def _flags(norm: NormSpec | None) -> int:
    return 0 if norm is None else 1 + 2 * norm.centre + 4 * norm.eps_outside


def _launch(kernel: Any, batch: int, size: int, *args: Tensor | float) -> None:
    """Run one program of `kernel` for each sequence, wide enough for `size` units."""
    block = triton.next_power_of_2(size)
    kernel[(batch,)](*args, BLOCK=block, num_warps=min(max(block // 128, 1), 16))


def _or(value: Tensor | None, like: Tensor, n: int, fill: float) -> Tensor:
    return like.new_full((n,), fill) if value is None else value


def _gains(spec: RecurrentSpec, t: RecurrentTensors) -> tuple[Tensor, ...]:
    size = t.h0.shape[1]
    n = spec.gates * size
    gains = ((t.input_gain, n, 1.0), (t.hidden_gain, n, 1.0), (t.cell_gain, size, 1.0), (t.cell_shift, size, 0.0))
    return tuple(_or(gain, t.x, width, fill) for gain, width, fill in gains)


def _hat(norms: tuple[NormSpec | None, ...], spec: RecurrentSpec, rows: Tensor, stat: Tensor) -> Tensor:
    """Return the normalised rows [T, B, n] before their gain."""
    size = rows.shape[-1] // spec.gates
    parts = []
    for group, (first, last) in enumerate(spec.groups):
        part = rows[..., first * size : last * size]
        known = stat[:, :, group]
        parts.append(part if norms[group] is None else (part - known[..., :1]) * known[..., 1:])
    return torch.cat(parts, -1)


def _through(
    norms: tuple[NormSpec | None, ...], spec: RecurrentSpec, dpre: Tensor, hat: Tensor, stat: Tensor, gain: Tensor
) -> Tensor:
    """Return the gradient of a projection's rows [T, B, n] from that of its normalised ones."""
    size = dpre.shape[-1] // spec.gates
    parts = []
    for group, norm in enumerate(norms):
        at = slice(spec.groups[group][0] * size, spec.groups[group][1] * size)
        if norm is None:
            parts.append(dpre[..., at])
            continue
        u, r, xhat = dpre[..., at] * gain[at], stat[:, :, group, 1:], hat[..., at]
        q = (u * xhat).sum(-1, keepdim=True) / norm.k
        if norm.eps_outside:
            rms = r.reciprocal() - norm.eps
            q = torch.where(rms > 0, q * (rms + norm.eps) / rms, 0.0)
        if norm.centre:
            u = u - u.mean(-1, keepdim=True)
        head = torch.arange(u.shape[-1], device=u.device) < norm.k
        parts.append(r * (u - xhat * q * head))
    return torch.cat(parts, -1)
