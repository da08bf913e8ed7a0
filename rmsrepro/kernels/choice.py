"""Which implementation serves a norm, and why."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import torch

from rmsrepro.errors import ConfigError
from rmsrepro.kernels.spec import IMPLS, NormSpec

#: Elements from which the bytes of a norm's backward pass weigh more on a GPU than the launch of a Triton kernel.
#: An estimate from byte counts and published launch costs, not a measurement.
GPU_FUSED_FROM = 1 << 20

log = logging.getLogger(__name__)


class Decision(NamedTuple):
    """What runs, why, and the kernels' plan when it is `fused`."""

    impl: str
    """`composed`, `torch` or `fused`."""
    reason: str
    plan: Any = None


class Request(NamedTuple):
    """All that a decision depends on; hashable, so that it is taken once."""

    op: str
    """`rms_norm`, `layer_norm` or `l2_norm`."""
    impl: str
    spec: NormSpec
    n: int
    special: str
    """What is wanted that neither kernels nor stock operations do, in words; empty for the plain formula."""
    device: str
    large: bool
    row: torch.dtype
    gain: torch.dtype | None
    bias: torch.dtype | None


def decide(request: Request) -> Decision:
    """Return what runs; raises ConfigError where `impl` cannot serve the request."""
    impl = request.impl
    if impl not in IMPLS:
        raise ConfigError(f"impl={impl}: allowed are {', '.join(IMPLS)}")
    if not request.row.is_floating_point:
        raise TypeError(f"{request.op} needs floating-point rows, got {str(request.row).removeprefix('torch.')}")
    if impl == "composed":
        return Decision("composed", "asked for")
    stock = stock_refusal(request)
    if impl == "torch":
        return (
            Decision("composed", f"torch has no stock operation for {stock}")
            if stock
            else Decision("torch", "asked for")
        )
    if impl == "compile":
        return Decision("composed", "the compiler fuses the operations")
    refusal = kernel_refusal(request)
    if impl == "fused":
        if refusal:
            raise ConfigError(f"impl=fused: {request.op} cannot run in the fused kernels: {refusal}; use impl=auto")
        return Decision("fused", "asked for", _plan(request))
    if refusal:
        _say_once(refusal)
        if stock:
            return Decision("composed", f"no fused kernel ({refusal}), and torch has no stock operation for {stock}")
        return Decision("torch", f"no fused kernel: {refusal}")
    if request.device == "cuda" and not stock and not request.large and request.gain in (None, request.row):
        return Decision("torch", f"below {GPU_FUSED_FROM} elements a GPU norm is bound by its launch (not measured)")
    if request.device == "cuda":
        return Decision(
            "fused", "the backward kernel moves 3 tensors where the stock one moves 5 (not measured)", _plan(request)
        )
    return Decision("fused", f"the CPU kernels ({_instruction_set()})", _plan(request))


@cache
def backend(device: str) -> ModuleType | None:
    """Return the module whose `plan` makes this device's kernels, or None."""
    if device == "cpu":
        from rmsrepro.kernels.cpu import norms

        return norms if norms.library.library is not None else None
    if device == "cuda" and importlib.util.find_spec("triton") is not None:
        return importlib.import_module("rmsrepro.kernels.triton.norms")
    return None


def kernel_refusal(request: Request) -> str:
    """Say why the fused kernels cannot serve the request; empty when they can."""
    if request.op == "l2_norm":
        return "there is none for the L2 norm"
    if request.special:
        return f"they do not do {request.special}"
    module = backend(request.device)
    if module is None:
        if request.device == "cpu":
            from rmsrepro.kernels.cpu import library

            return library.missing
        return "triton is not installed" if request.device == "cuda" else f"there is none for {request.device}"
    for dtype in (request.row, request.gain, request.bias):
        if dtype is not None and dtype not in module.DTYPES:
            return f"there is none for {str(dtype).removeprefix('torch.')} on {request.device}"
    return ""


def stock_refusal(request: Request) -> str:
    """Say what of the request torch's stock operations do not do; empty when they do all."""
    if request.op == "l2_norm":
        return "the L2 norm"
    if request.special:
        return request.special
    if request.spec.k != request.n:
        return "a partial statistic"
    return "eps outside the root" if request.spec.eps_outside else ""


def _instruction_set() -> str:
    from rmsrepro.kernels.cpu import library, node

    recorded = "C++" if node.norm is not None else "Python: python -m rmsrepro.kernels.cpu.node.build helps small norms"
    return f"{library.instruction_set()}, autograd in {recorded}"


def _plan(request: Request) -> Any:
    module = backend(request.device)
    assert module is not None
    return module.plan(request.spec, request.n, request.row, request.gain, request.bias)


@cache
def _say_once(refusal: str) -> None:
    """Tell in one line, once in a process, that norms are slower than they could be here."""
    from rmsrepro.kernels.cpu import library

    if refusal == library.missing:
        log.warning("norms run without fused kernels: %s", refusal)
