"""Tile sizes and warps of the Triton kernels: a fixed table, so that a new length never starts a tuning run.

Everything follows from the row length and the number of multiprocessors. Rows are treated alike however many there
are, which keeps results independent of the batch they stand in. None of the numbers is measured yet; the limits are
those at which the compiler's register counts (sm_80, sm_90, sm_100) show no spills.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Longest rows that one program holds in registers; longer ones are streamed.
FORWARD_ROW_LIMIT = 16384
BACKWARD_ROW_LIMIT = 8192
#: Columns per step of the streaming kernels.
STREAM_BLOCK = 4096
#: Columns and rows of a tile, and most row chunks, where gradients of long rows' gains are summed.
COLUMN_TILE, COLUMN_ROWS, COLUMN_CHUNKS = 128, 16, 64
FINISH_COLUMNS, FINISH_ROWS = 64, 32


@dataclass(frozen=True)
class Tile:
    """Rows and (padded) columns of one program's tile, and its warps."""

    rows: int
    block: int
    warps: int


def forward_tile(n: int) -> Tile:
    """Return the tile of the forward kernel for rows of `n` <= FORWARD_ROW_LIMIT elements."""
    block = _power_of_two(n)
    rows = max(1, min(16, 4096 // block))
    return Tile(rows, block, _clamp(rows * block // 512, 1, 16))


def backward_tile(n: int) -> Tile:
    """Return the tile of the backward kernel for rows of `n` <= BACKWARD_ROW_LIMIT elements."""
    block = _power_of_two(n)
    rows = max(1, min(8, 512 // block))
    return Tile(rows, block, _clamp(rows * block // 256, 1, 16))


def backward_programs(n: int, rows: int, multiprocessors: int) -> int:
    """Return how many programs share the rows in the backward pass, each with its own sum of the gain's gradient."""
    tile = backward_tile(n)
    per_multiprocessor = _clamp(16384 // tile.block, 1, 16)
    tiles = -(-rows // tile.rows)
    return max(1, min(tiles, multiprocessors * per_multiprocessor))


def _power_of_two(n: int) -> int:
    return max(16, 1 << (n - 1).bit_length())


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
