"""One time step of a recurrent layer on a GPU: norms, gates and state in one kernel, a program for each sequence.

A program holds a whole row, the gates one after another, padded to BLOCK units each. The flags of a norm are 1 for
being there, 2 for centring and 4 for eps outside the root.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    square = x * x  # near zero the series, where the difference below would lose its digits
    series = x * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0))))
    return tl.where(square < 0.04, series, 2.0 * tl.sigmoid(2.0 * x) - 1.0)


@triton.jit
def _stat(row, size, k, eps, first, last, NORM: tl.constexpr, BLOCK: tl.constexpr):
    """Mean and scale of the gates first <= g < last at `row`; (0, 1) without a norm."""
    j = tl.arange(0, BLOCK)
    mean = 0.0
    r = 1.0
    if NORM & 1:
        if NORM & 2:
            total = 0.0
            for g in tl.static_range(first, last):
                # pyrefly: ignore[unsupported-operation]
                total += tl.sum(tl.load(row + g * size + j, mask=j < size, other=0.0), 0)
            mean = total / ((last - first) * size)
        squares = 0.0
        for g in tl.static_range(first, last):
            a = tl.load(row + g * size + j, mask=j < size, other=0.0) - mean
            # pyrefly: ignore[unsupported-operation]
            squares += tl.sum(tl.where((j < size) & ((g - first) * size + j < k), a * a, 0.0), 0)
        r = 1.0 / (tl.sqrt(squares / k) + eps) if NORM & 4 else 1.0 / tl.sqrt(squares / k + eps)
    return mean, r


@triton.jit
def _normed(row, gain, gate, size, mean, r, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    a = tl.load(row + gate * size + j, mask=j < size, other=0.0)
    return (a - mean) * r * tl.load(gain + gate * size + j, mask=j < size, other=0.0)


@triton.jit
def _keep(stat, row, group, mean, r):
    tl.store(stat + (row * 2 + group) * 2, mean)
    tl.store(stat + (row * 2 + group) * 2 + 1, r)


@triton.jit
def forward_step(
    x, u, x_gain, u_gain, bias, candidate_bias, cell_gain, cell_shift, h_before, c_before, h, c, gates,
    x_stat, u_stat, c_stat, mask, size, x_k0, x_k1, u_k0, u_k1, c_k, x_eps0, x_eps1, u_eps0, u_eps1, c_eps,
    GATES: tl.constexpr, X0: tl.constexpr, X1: tl.constexpr, U0: tl.constexpr, U1: tl.constexpr, C: tl.constexpr,
    MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take one step: x, u, gates [B, GATES * size]; h, c [B, size]; statistics [B, 2 groups, 2]; mask [B]."""
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    here = j < size
    n = GATES * size
    x_row, u_row, at = x + b * n, u + b * n, b * size + j
    # The first group is all four gates of an LSTM and two of a GRU.
    x_mean, x_r = _stat(x_row, size, x_k0, x_eps0, 0, 2 * GATES - 4, X0, BLOCK)
    u_mean, u_r = _stat(u_row, size, u_k0, u_eps0, 0, 2 * GATES - 4, U0, BLOCK)
    _keep(x_stat, b, 0, x_mean, x_r)
    _keep(u_stat, b, 0, u_mean, u_r)
    first = _normed(x_row, x_gain, 0, size, x_mean, x_r, BLOCK) + _normed(u_row, u_gain, 0, size, u_mean, u_r, BLOCK)
    second = _normed(x_row, x_gain, 1, size, x_mean, x_r, BLOCK) + _normed(u_row, u_gain, 1, size, u_mean, u_r, BLOCK)
    first = tl.sigmoid(first + tl.load(bias + j, mask=here, other=0.0))
    second = tl.sigmoid(second + tl.load(bias + size + j, mask=here, other=0.0))
    tl.store(gates + b * n + j, first, mask=here)
    tl.store(gates + b * n + size + j, second, mask=here)
    old_h = tl.load(h_before + at, mask=here, other=0.0)
    counts = True
    if MASKED:
        counts = tl.load(mask + b) != 0
    third_bias = tl.load(bias + 2 * size + j, mask=here, other=0.0)
    if GATES == 4:
        g = _normed(x_row, x_gain, 2, size, x_mean, x_r, BLOCK) + _normed(u_row, u_gain, 2, size, u_mean, u_r, BLOCK)
        o = _normed(x_row, x_gain, 3, size, x_mean, x_r, BLOCK) + _normed(u_row, u_gain, 3, size, u_mean, u_r, BLOCK)
        g = _tanh(g + third_bias)
        o = tl.sigmoid(o + tl.load(bias + 3 * size + j, mask=here, other=0.0))
        tl.store(gates + b * n + 2 * size + j, g, mask=here)
        tl.store(gates + b * n + 3 * size + j, o, mask=here)
        old_c = tl.load(c_before + at, mask=here, other=0.0)
        new_c = second * old_c + first * g
        out = new_c
        if C & 1:
            mean = 0.0
            if C & 2:
                mean = tl.sum(tl.where(here, new_c, 0.0), 0) / size
            a = new_c - mean
            ms = tl.sum(tl.where(here & (j < c_k), a * a, 0.0), 0) / c_k
            r = 1.0 / (tl.sqrt(ms) + c_eps) if C & 4 else 1.0 / tl.sqrt(ms + c_eps)
            _keep(c_stat, b, 0, mean, r)
            out = a * r * tl.load(cell_gain + j, mask=here, other=0.0) + tl.load(cell_shift + j, mask=here, other=0.0)
        tl.store(c + at, tl.where(counts, new_c, old_c), mask=here)
        new_h = o * _tanh(out)
    else:
        x_mean, x_r = _stat(x_row, size, x_k1, x_eps1, 2, 3, X1, BLOCK)
        u_mean, u_r = _stat(u_row, size, u_k1, u_eps1, 2, 3, U1, BLOCK)
        _keep(x_stat, b, 1, x_mean, x_r)
        _keep(u_stat, b, 1, u_mean, u_r)
        from_h = _normed(u_row, u_gain, 2, size, u_mean, u_r, BLOCK) + tl.load(candidate_bias + j, mask=here, other=0.0)
        candidate = _tanh(_normed(x_row, x_gain, 2, size, x_mean, x_r, BLOCK) + third_bias + first * from_h)
        tl.store(gates + b * n + 2 * size + j, candidate, mask=here)
        new_h = candidate + second * (old_h - candidate)
    tl.store(h + at, tl.where(counts, new_h, old_h), mask=here)


@triton.jit
def lstm_backward_step(
    gates, c_before, c, c_stat, cell_gain, cell_shift, dy, dh, dc, dpre, dout, mask, size, c_k, c_eps,
    C: tl.constexpr, HAS_DY: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From dh and dc [B, size] of the state behind the step to dpre [B, 4 size], dout [B, size], and dc before it.

    dh is left as what reaches the state before the step past the gates: nothing, or all where the step is masked.
    """
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    here = j < size
    at, row = b * size + j, b * 4 * size + j
    d = tl.load(dh + at, mask=here, other=0.0)
    if HAS_DY:
        d += tl.load(dy + at, mask=here, other=0.0)
    counts = True
    if MASKED:
        counts = tl.load(mask + b) != 0
    i, f = tl.load(gates + row, mask=here, other=0.0), tl.load(gates + row + size, mask=here, other=0.0)
    g, o = tl.load(gates + row + 2 * size, mask=here, other=0.0), tl.load(gates + row + 3 * size, mask=here, other=0.0)
    cell = tl.load(c + at, mask=here, other=0.0)
    old_dc = tl.load(dc + at, mask=here, other=0.0)
    if C & 1:
        mean, r = tl.load(c_stat + b * 4), tl.load(c_stat + b * 4 + 1)
        gain = tl.load(cell_gain + j, mask=here, other=0.0)
        hat = (cell - mean) * r
        activation = _tanh(hat * gain + tl.load(cell_shift + j, mask=here, other=0.0))
        out = d * o * (1.0 - activation * activation)
        u = out * gain
        q = tl.sum(tl.where(here, u * hat, 0.0), 0) / c_k
        if C & 4:
            rms = 1.0 / r - c_eps
            q = tl.where(rms > 0.0, q * (rms + c_eps) / rms, 0.0)
        centre = 0.0
        if C & 2:
            centre = tl.sum(tl.where(here, u, 0.0), 0) / size
        dcell = r * (u - centre - tl.where(j < c_k, hat * q, 0.0))
    else:
        activation = _tanh(cell)
        out = d * o * (1.0 - activation * activation)
        dcell = out
    total = old_dc + dcell
    before = tl.load(c_before + at, mask=here, other=0.0)
    tl.store(dout + at, tl.where(counts, out, 0.0), mask=here)
    tl.store(dpre + row, tl.where(counts, total * g * i * (1.0 - i), 0.0), mask=here)
    tl.store(dpre + row + size, tl.where(counts, total * before * f * (1.0 - f), 0.0), mask=here)
    tl.store(dpre + row + 2 * size, tl.where(counts, total * i * (1.0 - g * g), 0.0), mask=here)
    tl.store(dpre + row + 3 * size, tl.where(counts, d * activation * o * (1.0 - o), 0.0), mask=here)
    tl.store(dc + at, tl.where(counts, total * f, old_dc), mask=here)
    tl.store(dh + at, tl.where(counts, 0.0, d), mask=here)


@triton.jit
def gru_backward_step(
    gates, h_before, from_h, dy, dh, dpre, dpre_h, mask, size,
    HAS_DY: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From dh [B, size] of the state behind the step to dpre and dpre_h [B, 3 size], of the input's and state's side.

    `from_h` [B, size] is the normalised candidate of the state. dh is left as what reaches the state before the step
    past the gates.
    """
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    here = j < size
    at, row = b * size + j, b * 3 * size + j
    d = tl.load(dh + at, mask=here, other=0.0)
    if HAS_DY:
        d += tl.load(dy + at, mask=here, other=0.0)
    counts = True
    if MASKED:
        counts = tl.load(mask + b) != 0
    r, z = tl.load(gates + row, mask=here, other=0.0), tl.load(gates + row + size, mask=here, other=0.0)
    candidate = tl.load(gates + row + 2 * size, mask=here, other=0.0)
    dn = d * (1.0 - z) * (1.0 - candidate * candidate)
    dr = dn * tl.load(from_h + at, mask=here, other=0.0) * r * (1.0 - r)
    dz = d * (tl.load(h_before + at, mask=here, other=0.0) - candidate) * z * (1.0 - z)
    dr, dz, dn = tl.where(counts, dr, 0.0), tl.where(counts, dz, 0.0), tl.where(counts, dn, 0.0)
    tl.store(dpre + row, dr, mask=here)
    tl.store(dpre + row + size, dz, mask=here)
    tl.store(dpre + row + 2 * size, dn, mask=here)
    tl.store(dpre_h + row, dr, mask=here)
    tl.store(dpre_h + row + size, dz, mask=here)
    tl.store(dpre_h + row + 2 * size, dn * r, mask=here)
    tl.store(dh + at, tl.where(counts, d * z, d), mask=here)


@triton.jit
def norm_backward_step(
    dpre, u, stat, gain, du, size, k, eps, n, group: tl.constexpr, first: tl.constexpr, last: tl.constexpr,
    NORM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From dpre [B, n] through the norm of the gates first <= g < last to du [B, n]."""
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    here = j < size
    mean, r = tl.load(stat + (b * 2 + group) * 2), tl.load(stat + (b * 2 + group) * 2 + 1)
    q = 0.0
    centre = 0.0
    for g in tl.static_range(first, last):
        at = b * n + g * size + j
        v = tl.load(dpre + at, mask=here, other=0.0) * tl.load(gain + g * size + j, mask=here, other=0.0)
        q += tl.sum(v * (tl.load(u + at, mask=here, other=0.0) - mean), 0) * r
        # pyrefly: ignore[unsupported-operation]
        centre += tl.sum(v, 0)
    q = q / k
    centre = centre / ((last - first) * size)
    if NORM & 4:
        rms = 1.0 / r - eps
        q = tl.where(rms > 0.0, q * (rms + eps) / rms, 0.0)
    for g in tl.static_range(first, last):
        at = b * n + g * size + j
        v = tl.load(dpre + at, mask=here, other=0.0) * tl.load(gain + g * size + j, mask=here, other=0.0)
        hat = (tl.load(u + at, mask=here, other=0.0) - mean) * r
        if NORM & 2:
            v -= centre
        tl.store(du + at, r * (v - tl.where((g - first) * size + j < k, hat * q, 0.0)), mask=here)
