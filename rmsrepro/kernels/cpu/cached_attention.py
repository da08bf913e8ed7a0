"""The CPU kernel of attention to cached keys and values on tensors: allocation, and one foreign call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p

from torch import Tensor

from rmsrepro.kernels.cpu import library


class _Call(ctypes.Structure):
    """CachedAttentionCall of cached_attention.h."""

    _fields_ = (
        *((name, c_int64) for name in ("queries", "heads", "width", "steps")),
        *((name, c_void_p) for name in ("query", "cache", "strides", "starts", "rows")),
        ("rows_by_query", c_int64),
        ("rows_by_step", c_int64),
        ("counts", c_void_p),
        ("y", c_void_p),
    )


def cached_attention(
    query: Tensor,
    cache: Sequence[Tensor],
    starts: Sequence[int],
    rows: Tensor,
    heads: int,
    counts: Tensor | None = None,
) -> Tensor:
    """Return what each query [N, D] finds at row `rows[n, s] - starts[s]` of each position s that it sees: [N, D].

    cache: for each of S positions, keys and values side by side [rows, 2 * D], neighbours in a row neighbours in
    memory; rows int64 [N, S], with any strides; counts int64 [N], how many positions each query sees, from 1 to S.
    """
    assert library.library is not None, library.missing
    query = query.contiguous()
    y = query.new_empty(query.shape)
    steps, (count, size) = len(cache), query.shape
    counts = None if counts is None else counts.contiguous()
    call = _Call(
        *(count, heads, size // heads, steps, query.data_ptr()),
        ctypes.cast((c_int64 * steps)(*(part.data_ptr() for part in cache)), c_void_p),
        ctypes.cast((c_int64 * steps)(*(part.stride(0) for part in cache)), c_void_p),
        ctypes.cast((c_int64 * steps)(*starts), c_void_p),
        *(rows.data_ptr(), *rows.stride(), None if counts is None else counts.data_ptr(), y.data_ptr()),
    )
    library.library.rr_cached_attention(ctypes.byref(call))
    return y
