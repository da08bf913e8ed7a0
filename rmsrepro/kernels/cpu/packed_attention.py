"""The CPU kernel of attention over packed sequences on tensors: allocation, and foreign calls."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass

import torch
from torch import Tensor

from rmsrepro.kernels.cpu import library


class _Call(ctypes.Structure):
    """PackedAttentionCall of packed_attention.h."""

    _fields_ = (
        *((name, c_int64) for name in ("sequences", "heads", "width", "causal")),
        *((name, c_void_p) for name in ("query_starts", "key_starts", "q", "k", "v")),
        *((name, c_int64) for name in ("q_row", "k_row", "v_row")),
        *((name, c_void_p) for name in ("y", "stats", "dy", "dq", "dk", "dv")),
    )


@dataclass(frozen=True)
class PackedAttention:
    """Which rows attend to which: sequence b's queries are the rows from query_starts[b] to query_starts[b + 1]."""

    query_starts: Tensor
    """[B + 1] int64, from 0 to N, the number of query rows."""
    key_starts: Tensor
    """[B + 1] int64, from 0 to M, the number of rows of keys and values."""
    heads: int
    causal: bool
    """A query sees the keys up to its own place; as many keys as queries then."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return what queries q [N, D] find in k and v [M, D]: [N, D], and what the backward pass wants.

        A row's features lie side by side; rows may lie apart.
        """
        y, stats = q.new_empty(q.shape), q.new_empty(len(q), self.heads, 2)
        self._run("forward", (q, k, v), y=y.data_ptr(), stats=stats.data_ptr())
        return y, stats

    def backward(self, given: tuple[Tensor, ...], stats: Tensor, dy: Tensor, grads: tuple[Tensor, ...]) -> None:
        """Fill `grads`, which lie in memory as `given`, q, k and v, do, with their gradients; dy [N, D]."""
        assert all(g.stride() == x.stride() for g, x in zip(grads, given, strict=True))
        dy = dy.contiguous()
        dq, dk, dv = (g.data_ptr() for g in grads)
        self._run("backward", given, stats=stats.data_ptr(), dy=dy.data_ptr(), dq=dq, dk=dk, dv=dv)

    def _run(self, direction: str, given: tuple[Tensor, ...], **addresses: int) -> None:
        self._require_fitting(*(tuple(x.shape) for x in given))
        starts = self.query_starts.contiguous(), self.key_starts.contiguous()
        assert all(x.stride(1) == 1 or x.shape[1] == 1 for x in given)
        strides = (x.stride(0) for x in given)
        pointers = (x.data_ptr() for x in (*starts, *given))
        size = given[0].shape[1]
        call = _Call(
            *(len(self.query_starts) - 1, self.heads, size // self.heads, self.causal, *pointers, *strides), **addresses
        )
        assert library.library is not None, library.missing
        getattr(library.library, f"rr_packed_attention_{direction}")(ctypes.byref(call))

    def _require_fitting(self, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
        """Check all sizes, as the kernel reads plain addresses."""
        starts = self.query_starts, self.key_starts
        rows, ends = (q[0], k[0]), tuple(int(s[-1]) for s in starts)
        if len(starts[0]) != len(starts[1]) or rows != ends:
            raise ValueError(
                f"{rows[0]} rows of queries and {rows[1]} of keys, for {len(starts[0]) - 1} and {len(starts[1]) - 1}"
                f" sequences of {ends[0]} and {ends[1]} rows: give rows, and starts, of the same sequences"
            )
        if self.heads < 1 or q[1] % self.heads or not q[1:] == k[1:] == v[1:] or k != v:
            raise ValueError(
                f"queries {q}, keys {k}, values {v}: expected as many features each, for {self.heads} heads"
            )
        if self.causal and not torch.equal(*starts):
            raise ValueError("causal attention is of sequences to themselves: give the same starts twice")
