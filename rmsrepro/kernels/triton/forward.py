"""Forward kernels: rows that fit into registers are read once; longer ones twice, a block at a time."""

from __future__ import annotations

import triton
import triton.language as tl

# Squares of values from 1.8e19 leave float32's range; scaled by this power of two they stay inside it.
SCALE = tl.constexpr(2.0**-96)


@triton.jit
def inverse_root(ms, ms_scaled, eps, EPS_OUTSIDE: tl.constexpr):
    """Return 1 / sqrt(ms + eps), or 1 / (sqrt(ms) + eps); where ms overflowed, from the scaled mean square."""
    r = 1.0 / (tl.sqrt(ms) + eps) if EPS_OUTSIDE else tl.rsqrt(ms + eps)
    return tl.where(ms == float("inf"), SCALE / tl.sqrt(ms_scaled), r)


@triton.jit
def forward_rows(
    x_ptr,
    residual_ptr,
    gain_ptr,
    bias_ptr,
    y_ptr,
    sum_ptr,
    stat_ptr,
    rows,
    x_stride,
    residual_stride,
    n,
    k,
    eps,
    gain_offset,
    CENTRE: tl.constexpr,
    PARTIAL: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    HAS_GAIN: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Normalise ROWS rows, each held whole in registers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (col < n)[None, :]
    a = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        other = tl.load(residual_ptr + row[:, None] * residual_stride + col[None, :], mask=inside, other=0.0)
        added = (a + other.to(tl.float32)).to(sum_ptr.dtype.element_ty)
        tl.store(sum_ptr + row[:, None] * n + col[None, :], added, mask=inside)
        a = added.to(tl.float32)
    if CENTRE:
        mean = tl.sum(a, axis=1) / n
        a = tl.where(inside, a - mean[:, None], 0.0)
        tl.store(stat_ptr + row * 2, mean, mask=row < rows)
    head = a
    if PARTIAL:
        head = tl.where((col < k)[None, :], a, 0.0)
    ms = tl.sum(head * head, axis=1) / k
    ms_scaled = ms
    if tl.max(ms, axis=0) == float("inf"):
        ms_scaled = tl.sum((head * SCALE) * (head * SCALE), axis=1) / k
    r = inverse_root(ms, ms_scaled, eps, EPS_OUTSIDE)
    tl.store(stat_ptr + row * (1 + CENTRE) + CENTRE, r, mask=row < rows)
    y = a * r[:, None]
    if HAS_GAIN:
        gain = tl.load(gain_ptr + col, mask=col < n, other=0.0).to(tl.float32) + gain_offset
        y = y * gain[None, :]
    if HAS_BIAS:
        y = y + tl.load(bias_ptr + col, mask=col < n, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + row[:, None] * n + col[None, :], y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def forward_stream(
    x_ptr,
    residual_ptr,
    gain_ptr,
    bias_ptr,
    y_ptr,
    sum_ptr,
    stat_ptr,
    rows,
    x_stride,
    residual_stride,
    n,
    k,
    eps,
    gain_offset,
    CENTRE: tl.constexpr,
    PARTIAL: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    HAS_GAIN: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Normalise one long row: once through it for the statistic (k elements suffice), once for the output."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * n
    if HAS_RESIDUAL:
        residual_ptr += row * residual_stride
        sum_ptr += row * n
        for start in range(0, n, BLOCK):
            col = start + tl.arange(0, BLOCK)
            a = tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32)
            other = tl.load(residual_ptr + col, mask=col < n, other=0.0).to(tl.float32)
            tl.store(sum_ptr + col, (a + other).to(sum_ptr.dtype.element_ty), mask=col < n)
        tl.debug_barrier()
        x_ptr = sum_ptr
    mean = 0.0
    if CENTRE:
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, n, BLOCK):
            col = start + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        mean = tl.sum(total, axis=0) / n
        tl.store(stat_ptr + row * 2, mean)
    squares = tl.zeros([BLOCK], tl.float32)
    scaled = tl.zeros([BLOCK], tl.float32)
    for start in range(0, k, BLOCK):
        col = start + tl.arange(0, BLOCK)
        a = tl.load(x_ptr + col, mask=col < k, other=0.0).to(tl.float32)
        if CENTRE:
            a = tl.where(col < k, a - mean, 0.0)
        squares += a * a
        scaled += (a * SCALE) * (a * SCALE)
    r = inverse_root(tl.sum(squares, axis=0) / k, tl.sum(scaled, axis=0) / k, eps, EPS_OUTSIDE)
    tl.store(stat_ptr + row * (1 + CENTRE) + CENTRE, r)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        y = (tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32) - mean) * r
        if HAS_GAIN:
            y = y * (tl.load(gain_ptr + col, mask=col < n, other=0.0).to(tl.float32) + gain_offset)
        if HAS_BIAS:
            y = y + tl.load(bias_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + col, y.to(y_ptr.dtype.element_ty), mask=col < n)
