"""The contestants of the norm benchmark: this project's norms and everybody else's, as calls without arguments."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rmsrepro.norms import functional

PASSES = ("forward", "backward", "both")
#: Tensors of the input's size that each pass must move at least.
MOVED = {"forward": 2, "backward": 3, "both": 5}
#: float32 arrays of the input's size that are in memory at once, inputs included, as measured on a CPU in float32 and,
#: to less, in bfloat16. Before `backward` is timed alone, the forward pass of every contestant is kept.
_HELD = {"forward": 6, "backward": 17, "both": 9}
EPS = 1e-5
PARTIAL = 0.0625  # the paper's pRMSNorm
#: The contestant that others' times are divided by.
REFERENCE = "F.layer_norm"

Arm = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One shape [rows, n], type and device."""

    rows: int
    n: int
    dtype: torch.dtype
    device: str

    @property
    def name(self) -> str:
        """Return rows x n and the type, as tables show it."""
        return f"{self.rows}x{self.n} {str(self.dtype).removeprefix('torch.')}"

    def moved_bytes(self, pass_: str) -> int:
        """Return the bytes of the tensors that `pass_` must read or write."""
        return MOVED[pass_] * self.rows * self.n * self.dtype.itemsize

    def held_bytes(self, passes: Iterable[str]) -> int:
        """Return about how much memory timing these passes takes."""
        return max(_HELD[pass_] for pass_ in passes) * self.rows * self.n * torch.float32.itemsize


class Inputs:
    """Random tensors of a case; gain and bias have the input's type, as stock operations want them."""

    def __init__(self, case: Case) -> None:
        generator = torch.Generator().manual_seed(0)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(case.device, case.dtype)

        self.x = draw(case.rows, case.n).requires_grad_()
        self.gain = draw(case.n).requires_grad_()
        self.bias = draw(case.n).requires_grad_()
        self.dy = draw(case.rows, case.n)


def norms(*, compiled: bool, device: str) -> dict[str, Callable[[Inputs], Tensor]]:
    """Return every contestant as a function of the inputs; LayerNorms have a bias, RMSNorms none."""

    def layer(impl: str) -> Callable[[Inputs], Tensor]:
        return lambda t: functional.layer_norm(t.x, t.gain, t.bias, EPS, impl)

    def rms(impl: str, p: float = 1.0) -> Callable[[Inputs], Tensor]:
        return lambda t: functional.rms_norm(t.x, t.gain, None, EPS, p, impl)

    found = {
        "F.layer_norm": lambda t: F.layer_norm(t.x, t.x.shape[-1:], t.gain, t.bias, EPS),
        "F.layer_norm again": lambda t: F.layer_norm(t.x, t.x.shape[-1:], t.gain, t.bias, EPS),
        "F.rms_norm": lambda t: F.rms_norm(t.x, t.x.shape[-1:], t.gain, EPS),
        "composed layernorm": layer("composed"),
        "composed rmsnorm": rms("composed"),
        "composed prmsnorm": rms("composed", PARTIAL),
    }
    if functional.explain("rms_norm", torch.empty(1, 8, device=device), impl="auto")[0] == "fused" or device == "cuda":
        found |= {
            "fused layernorm": layer("fused"),
            "fused rmsnorm": rms("fused"),
            "fused prmsnorm": rms("fused", PARTIAL),
        }
    if compiled:
        for name, run in (
            ("layernorm", layer("compile")),
            ("rmsnorm", rms("compile")),
            ("prmsnorm", rms("compile", PARTIAL)),
        ):
            found[f"compile {name}"] = torch.compile(run, dynamic=False)
    return found | _installed_peers(device)


def _installed_peers(device: str) -> dict[str, Callable[[Inputs], Tensor]]:
    """Return other projects' GPU kernels where they are installed."""
    peers: dict[str, Callable[[Inputs], Tensor]] = {}
    if device != "cuda":
        return peers
    if importlib.util.find_spec("liger_kernel"):
        liger: Any = importlib.import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction
        peers["liger rmsnorm"] = lambda t: liger.apply(t.x, t.gain, EPS, 0.0, "llama", False)
        liger_layer: Any = importlib.import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction
        peers["liger layernorm"] = lambda t: liger_layer.apply(t.x, t.gain, t.bias, EPS)
    if importlib.util.find_spec("quack"):
        quack: Any = importlib.import_module("quack")
        peers["quack rmsnorm"] = lambda t: quack.rmsnorm(t.x, t.gain, eps=EPS)
    return peers


def arms(case: Case, pass_: str, contestants: dict[str, Callable[[Inputs], Tensor]]) -> dict[str, Arm]:
    """Return the calls that are timed for one pass of a case, a copy of the input among them."""
    inputs = Inputs(case)
    target = torch.empty_like(inputs.dy)
    calls: dict[str, Arm] = {"copy": lambda: target.copy_(inputs.dy)}
    for name, norm in contestants.items():
        wanted = [inputs.x, inputs.gain] + ([inputs.bias] if "layer" in name else [])
        try:
            calls[name] = _arm(norm, inputs, wanted, pass_)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                calls[name]()
        except Exception as error:  # a peer that cannot run here is left out by name, not by a crash
            calls.pop(name, None)
            if "fused" in name or name == REFERENCE:
                raise
            print(f"{case.name} {pass_}: {name} left out ({type(error).__name__}: {str(error).splitlines()[0]})")
    return calls


def _arm(norm: Callable[[Inputs], Tensor], inputs: Inputs, wanted: list[Tensor], pass_: str) -> Arm:
    if pass_ == "forward":
        return lambda: norm(inputs)
    if pass_ == "both":
        return lambda: torch.autograd.grad(norm(inputs), wanted, inputs.dy)
    y = norm(inputs)
    return lambda: torch.autograd.grad(y, wanted, inputs.dy, retain_graph=True)
