"""Memory of large CPU tensors: kept by the process instead of given back to the system after every step.

glibc returns a freed block above a threshold to the kernel, and the next tensor of that size then meets a page fault
for every 4 KiB: at [4096, 1024] float32 the faults can cost more than the arithmetic of a norm.
"""

from __future__ import annotations

import ctypes
import sys

# glibc's malloc.h; the thresholds are ints in bytes, and 1 GiB is above any tensor of this project's CPU runs.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


def keep_large_blocks() -> bool:
    """Make this process keep and reuse freed blocks up to 1 GiB; returns whether the C library could be told.

    Meant for the start of a training process, whose steps ask for the same sizes again and again. The price is that
    freed memory is not given back before the process ends. Elsewhere than with glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, 2 * KEPT_BYTES - 1))
