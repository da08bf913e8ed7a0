"""The C structures that more than one of the CPU kernels' bindings pass, field for field as in norm.h."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int32, c_int64


class CNormSpec(ctypes.Structure):
    """NormSpec of norm.h: one formula over rows of `n` elements, and the types of its tensors."""

    _fields_ = (
        ("n", c_int64),
        ("k", c_int64),
        ("eps", c_double),
        ("gain_offset", c_double),
        ("centre", c_int32),
        ("eps_outside", c_int32),
        ("row_type", c_int32),
        ("gain_type", c_int32),
        ("bias_type", c_int32),
    )
