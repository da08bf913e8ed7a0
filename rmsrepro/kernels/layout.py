"""How kernels see a tensor: as rows of adjacent elements, a fixed step apart."""

from __future__ import annotations

from torch import Tensor


def rows_of(x: Tensor) -> tuple[Tensor, int]:
    """Return `x` [..., n] and the step from row to row in elements, copying only what cannot be walked so.

    A row expanded over all others, as in the gradient of a sum, stays one row with the step 0.
    """
    n = x.shape[-1]
    if x.is_contiguous():
        return x, n
    strides = x.stride()
    if x.numel() and not any(strides[:-1]):
        return x[(slice(0, 1),) * (x.dim() - 1)].contiguous(), 0
    if (strides[-1] == 1 or n == 1) and x.dim() > 1:
        # The rows of the last batch dimension that has more than one set the step; those outside it must follow on.
        step = expected = None
        for size, stride in zip(reversed(x.shape[:-1]), reversed(strides[:-1]), strict=True):
            if size == 1:
                continue
            if expected is None:
                step = stride
            elif stride != expected:
                return x.contiguous(), n
            expected = stride * size
        if step is not None and step >= n:
            return x, step
    return x.contiguous(), n
