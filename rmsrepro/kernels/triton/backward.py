"""Backward kernels: dx and the gain's gradient from one reading of dy and x; long rows take three kernels instead.

Gradients of gain and bias are summed without atomics: every program keeps its own sum in float32, and `finish` adds
those in a fixed order. The formulas are in rmsrepro/kernels/cpu/norm_backward.h and, readable, in reference.py.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def outside_factor(ms, eps):
    """Return (rms + eps) / rms, the factor of the correction term with eps outside the root; 0 for a zero row."""
    rms = tl.sqrt(ms)
    return tl.where(rms > 0.0, (rms + eps) / tl.where(rms > 0.0, rms, 1.0), 0.0)


@triton.jit
def backward_rows(
    dy_ptr,
    dsum_ptr,
    x_ptr,
    gain_ptr,
    stat_ptr,
    dx_ptr,
    dgain_ptr,
    dbias_ptr,
    rows,
    dy_stride,
    dsum_stride,
    x_stride,
    n,
    k,
    eps,
    gain_offset,
    CENTRE: tl.constexpr,
    PARTIAL: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
    HAS_GAIN: tl.constexpr,
    HAS_DSUM: tl.constexpr,
    WANT_X: tl.constexpr,
    WANT_GAIN: tl.constexpr,
    WANT_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Walk every n-th tile of rows; dgain and dbias [programs, n] get this program's sums."""
    program = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    col_inside = col < n
    dgain = tl.zeros([ROWS, BLOCK], tl.float32)
    dbias = tl.zeros([ROWS, BLOCK], tl.float32)
    gain = tl.zeros([BLOCK], tl.float32)
    if HAS_GAIN:
        gain = tl.load(gain_ptr + col, mask=col_inside, other=0.0).to(tl.float32) + gain_offset
    for tile in range(program, tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        row_inside = row < rows
        inside = row_inside[:, None] & col_inside[None, :]
        dy = tl.load(dy_ptr + row[:, None] * dy_stride + col[None, :], mask=inside, other=0.0).to(tl.float32)
        a = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=inside, other=0.0).to(tl.float32)
        r = tl.load(stat_ptr + row * (1 + CENTRE) + CENTRE, mask=row_inside, other=0.0)
        if CENTRE:
            a = tl.where(inside, a - tl.load(stat_ptr + row * 2, mask=row_inside, other=0.0)[:, None], 0.0)
        xhat = a * r[:, None]
        if WANT_GAIN:
            dgain += dy * xhat
        if WANT_BIAS:
            dbias += dy
        if WANT_X:
            u = dy
            if HAS_GAIN:
                u = dy * gain[None, :]
            q = tl.sum(u * xhat, axis=1) / k
            if EPS_OUTSIDE:
                head = tl.where((col < k)[None, :], a, 0.0)
                q = q * outside_factor(tl.sum(head * head, axis=1) / k, eps)
            correction = xhat * q[:, None]
            if PARTIAL:
                correction = tl.where((col < k)[None, :], correction, 0.0)
            if CENTRE:
                u = u - (tl.sum(u, axis=1) / n)[:, None]
            dx = r[:, None] * (u - correction)
            if HAS_DSUM:
                dsum = tl.load(dsum_ptr + row[:, None] * dsum_stride + col[None, :], mask=inside, other=0.0)
                dx += dsum.to(tl.float32)
            tl.store(dx_ptr + row[:, None] * n + col[None, :], dx.to(dx_ptr.dtype.element_ty), mask=inside)
    if WANT_GAIN:
        tl.store(dgain_ptr + program.to(tl.int64) * n + col, tl.sum(dgain, axis=0), mask=col_inside)
    if WANT_BIAS:
        tl.store(dbias_ptr + program.to(tl.int64) * n + col, tl.sum(dbias, axis=0), mask=col_inside)


@triton.jit
def backward_stream(
    dy_ptr,
    dsum_ptr,
    x_ptr,
    gain_ptr,
    stat_ptr,
    dx_ptr,
    dy_stride,
    dsum_stride,
    x_stride,
    n,
    k,
    eps,
    gain_offset,
    CENTRE: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
    HAS_GAIN: tl.constexpr,
    HAS_DSUM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write dx of one long row: once through it for the sums, once for the result."""
    row = tl.program_id(0).to(tl.int64)
    dy_ptr += row * dy_stride
    x_ptr += row * x_stride
    dx_ptr += row * n
    r = tl.load(stat_ptr + row * (1 + CENTRE) + CENTRE)
    mean = 0.0
    if CENTRE:
        mean = tl.load(stat_ptr + row * 2)
    products = tl.zeros([BLOCK], tl.float32)
    upstream = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        u = tl.load(dy_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        a = tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32) - mean
        if HAS_GAIN:
            u = u * (tl.load(gain_ptr + col, mask=col < n, other=0.0).to(tl.float32) + gain_offset)
        products += u * (a * r)
        if CENTRE:
            upstream += u
        if EPS_OUTSIDE:
            squares += tl.where(col < k, a * a, 0.0)
    q = tl.sum(products, axis=0) / k
    if EPS_OUTSIDE:
        q = q * outside_factor(tl.sum(squares, axis=0) / k, eps)
    mean_u = tl.sum(upstream, axis=0) / n
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        u = tl.load(dy_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        a = tl.load(x_ptr + col, mask=col < n, other=0.0).to(tl.float32) - mean
        if HAS_GAIN:
            u = u * (tl.load(gain_ptr + col, mask=col < n, other=0.0).to(tl.float32) + gain_offset)
        dx = r * (u - mean_u - tl.where(col < k, a * r * q, 0.0))
        if HAS_DSUM:
            dx += tl.load(dsum_ptr + row * dsum_stride + col, mask=col < n, other=0.0).to(tl.float32)
        tl.store(dx_ptr + col, dx.to(dx_ptr.dtype.element_ty), mask=col < n)


@triton.jit
def backward_columns(
    dy_ptr,
    x_ptr,
    stat_ptr,
    dgain_ptr,
    dbias_ptr,
    rows,
    rows_per_chunk,
    dy_stride,
    x_stride,
    n,
    CENTRE: tl.constexpr,
    WANT_GAIN: tl.constexpr,
    WANT_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Sum dgain and dbias of BLOCK columns over one chunk of rows into [chunks, n]."""
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chunk = tl.program_id(1).to(tl.int64)
    dgain = tl.zeros([ROWS, BLOCK], tl.float32)
    dbias = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, rows_per_chunk, ROWS):
        offset = start + tl.arange(0, ROWS)
        row = chunk * rows_per_chunk + offset
        row_inside = (row < rows) & (offset < rows_per_chunk)
        inside = row_inside[:, None] & (col < n)[None, :]
        dy = tl.load(dy_ptr + row[:, None] * dy_stride + col[None, :], mask=inside, other=0.0).to(tl.float32)
        if WANT_GAIN:
            a = tl.load(x_ptr + row[:, None] * x_stride + col[None, :], mask=inside, other=0.0).to(tl.float32)
            if CENTRE:
                a = a - tl.load(stat_ptr + row * 2, mask=row_inside, other=0.0)[:, None]
            r = tl.load(stat_ptr + row * (1 + CENTRE) + CENTRE, mask=row_inside, other=0.0)
            dgain += dy * (a * r[:, None])
        if WANT_BIAS:
            dbias += dy
    if WANT_GAIN:
        tl.store(dgain_ptr + chunk * n + col, tl.sum(dgain, axis=0), mask=col < n)
    if WANT_BIAS:
        tl.store(dbias_ptr + chunk * n + col, tl.sum(dbias, axis=0), mask=col < n)


@triton.jit
def finish(partials_ptr, result_ptr, count, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Add partial sums [count, n] in order and round once."""
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (col < n)[None, :]
        total += tl.load(partials_ptr + row[:, None].to(tl.int64) * n + col[None, :], mask=inside, other=0.0)
    tl.store(result_ptr + col, tl.sum(total, axis=0).to(result_ptr.dtype.element_ty), mask=col < n)
