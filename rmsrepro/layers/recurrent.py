"""What the normalised LSTM and GRU share: parameters in torch's layout, layers, directions and sequence forms."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rmsrepro.errors import ConfigError
from rmsrepro.layers.fused import why_not_fused
from rmsrepro.layers.generic import Cell, State
from rmsrepro.layers.options import Options
from rmsrepro.layers.projection import Projection, SiteNorm
from rmsrepro.layers.sequence import OwnSteps, steps_of
from rmsrepro.layers.step_norm import StepNorm, keeps_statistics
from rmsrepro.layers.weights import copy_weight, effective_weight
from rmsrepro.norms.config import NormConfig
from rmsrepro.norms.factory import NormFactory, norm_config


class NormRecurrent(nn.Module, Generic[Options]):
    """A stack of recurrent layers with norms inside the time loop; see NormLSTM and NormGRU.

    Parameters carry torch's names: `weight_ih_l{k}`, `weight_hh_l{k}`, `bias_ih_l{k}`, `bias_hh_l{k}`, with
    `_reverse` behind them for the second direction. Norms are modules beside them, `norm_{site}_l{k}`; a norm that
    acts on weights holds the weight itself, as `linear_ih_l{k}` and `linear_hh_l{k}`.
    """

    #: Gates of a cell, and the groups of them that are normalised together: site suffix, first and last gate.
    gates: ClassVar[int]
    groups: ClassVar[tuple[tuple[str, int, int], ...]]
    #: Tensors in a state.
    states: ClassVar[int]
    #: The layer of torch whose weights can be taken over.
    torch_layer: ClassVar[type[nn.RNNBase]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        norm: NormFactory | NormConfig | str,
        impl: str | None,
        options: Options,
        norm_fields: Mapping[str, Any],
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if size < 1:
                raise ConfigError(f"{name}={size}: at least 1 is needed")
        if not 0.0 <= dropout <= 1.0:
            raise ConfigError(f"dropout={dropout}: allowed is 0 <= dropout <= 1")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self.norm, self.options = _factory(norm, impl, norm_fields), options
        placement = options.bias_placement or self.norm.cfg.bias_placement
        self.bias_inside = placement == "inside"
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self._directions)
            for direction in self._directions:
                self._register(f"_l{layer}{direction}", width)
        self.reset_parameters()
        self.to(device=device, dtype=dtype)

    @property
    def _directions(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def _register(self, suffix: str, width: int) -> None:
        opts, rows = self.options, self.gates * self.hidden_size
        for kind, columns, wanted in (("ih", width, opts.norm_input), ("hh", self.hidden_size, opts.norm_hidden)):
            has_bias = self.bias and opts.biases in ("both", "input" if kind == "ih" else "hidden")
            self.register_parameter(f"bias_{kind}{suffix}", nn.Parameter(torch.empty(rows)) if has_bias else None)
            if wanted and "features" not in self.norm.family.sites:
                self.add_module(f"linear_{kind}{suffix}", self.norm.linear(columns, rows, bias=False))
                continue
            self.register_parameter(f"weight_{kind}{suffix}", nn.Parameter(torch.empty(rows, columns)))
            if wanted:
                for group, first, last in self.groups:
                    shift = self.norm.cfg.shift and (self.bias_inside or not has_bias)
                    self._add_norm(f"norm_{kind}{group}{suffix}", (last - first) * self.hidden_size, shift)

    def _add_norm(self, name: str, dim: int, shift: bool) -> None:
        """Register a norm under `name`, without a shift where the bias behind it is one; nothing if it is no norm."""
        norm = NormFactory(replace(self.norm.cfg, shift=shift), self.norm.impl).features(dim)
        if isinstance(norm, nn.Identity):
            return
        self.add_module(name, StepNorm(norm, dim, self.options.max_steps) if keeps_statistics(norm) else norm)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights and biases as torch does, from U(-1/sqrt(H), 1/sqrt(H)), and set the gains to their start."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for name, parameter in self.named_parameters(recurse=False):
            if parameter is not None and name.startswith(("weight_", "bias_")):
                parameter.uniform_(-bound, bound)
        for name, module in self.named_children():
            if name.startswith("linear_"):
                copy_weight(module, torch.empty_like(effective_weight(module)).uniform_(-bound, bound))
            elif isinstance(gain := getattr(module, "weight", None), Tensor):
                gain.fill_(self.options.gain_init - self.norm.cfg.gain_offset)

    @classmethod
    def from_torch(cls, layer: nn.RNNBase, **options: Any) -> Self:
        """Build the layer with the sizes and weights of torch's `layer`; `options` are those of the constructor."""
        if not isinstance(layer, cls.torch_layer) or layer.proj_size:
            raise ConfigError(f"{cls.__name__} takes over an nn.{cls.torch_layer.__name__} without proj_size")
        new = cls(
            layer.input_size,
            layer.hidden_size,
            layer.num_layers,
            layer.bias,
            layer.batch_first,
            layer.dropout,
            layer.bidirectional,
            **options,
        )
        first = next(layer.parameters())
        new.to(device=first.device, dtype=first.dtype).load_torch_state(layer.state_dict())
        return new.train(layer.training)

    @torch.no_grad()
    def load_torch_state(self, state: Mapping[str, Tensor]) -> None:
        """Copy weights and biases from the state of torch's layer; gains and shifts stay as they are."""
        own = {name: p for name, p in self.named_parameters(recurse=False) if p is not None}
        linear = {name.replace("linear_", "weight_"): m for name, m in self.named_children() if "linear_" in name}
        differing = sorted(set(state) ^ (set(own) | set(linear)))
        if differing:
            raise ConfigError(f"torch's weights do not fit: only one of the layers has {', '.join(differing)}")
        for name, value in state.items():
            target = own[name] if name in own else effective_weight(linear[name])
            if target.shape != value.shape:
                raise ConfigError(f"{name} is {list(value.shape)} in torch's layer, here {list(target.shape)}")
        for name, value in state.items():
            if name in own:
                own[name].copy_(value)
            else:
                copy_weight(linear[name], value)

    def _projection(self, kind: str, suffix: str) -> Projection:
        bias = getattr(self, f"bias_{kind}{suffix}")
        holder = getattr(self, f"linear_{kind}{suffix}", None)
        weight = getattr(self, f"weight_{kind}{suffix}") if holder is None else effective_weight(holder)
        norms = [
            SiteNorm(first * self.hidden_size, last * self.hidden_size, norm)
            for group, first, last in self.groups
            if (norm := getattr(self, f"norm_{kind}{group}{suffix}", None)) is not None
        ]
        inside = self.bias_inside and bool(norms)
        return Projection(weight, bias if inside else None, None if inside else bias, norms)

    def cell(self, suffix: str = "_l0") -> Cell:
        """Return one layer in one direction as the time loops read it, its parameters as they are now."""
        return Cell(self._projection("ih", suffix), self._projection("hh", suffix), self.hidden_size)

    def _is_fused(self, x: Tensor, state: State, cell: Cell) -> bool:
        """Say whether the kernels run this layer; raises ConfigError where `impl=fused` asks for what they cannot."""
        # The GPU's kernels have not been timed against the loop: they run when they are asked for by name.
        if self.norm.impl in ("composed", "torch") or (x.is_cuda and self.norm.impl != "fused"):
            return False
        reason = why_not_fused(x, state, cell, self.options)
        if reason is not None and self.norm.impl == "fused":
            raise ConfigError(f"impl=fused: {reason}; use impl=auto, torch or composed")
        return reason is None

    @abstractmethod
    def _run(self, x: Tensor, state: State, cell: Cell, mask: Tensor | None, reverse: bool) -> tuple[Tensor, State]:
        """Run one layer in one direction over `x` [T, B, in]."""

    def _run_own_steps(
        self, x: Tensor, state: State, cell: Cell, mask: Tensor | None, reverse: bool
    ) -> tuple[Tensor, State]:
        """Run one layer in one direction; where norms differ from step to step, each sequence counts its own steps.

        In the second direction the loop's number of a step would depend on how much padding a batch has.
        """
        if mask is None or not cell.by_step:
            return self._run(x, state, cell, mask, reverse)
        own = OwnSteps.of(mask, reverse)
        y, end = self._run(own.moved(x), state, cell, own.mask, False)
        return own.back(y, state[0]), end

    def _forward(
        self, x: Tensor | PackedSequence, state: State | None, lengths: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor | PackedSequence, State]:
        """Run all layers; the state is one tensor [layers * directions, B, H] for each that the cell has."""
        steps = steps_of(x, self.input_size, self.batch_first, lengths, mask)
        y, mask = steps.x, steps.mask
        if mask is not None:
            # What stands in the padding must not reach a gradient, not even as NaN times zero.
            y = y.masked_fill(~mask.unsqueeze(-1), 0.0)
        rows = (self.num_layers * len(self._directions), y.shape[1], self.hidden_size)
        if state is None:
            state = (y.new_zeros(rows),) * self.states
        elif not steps.batched:
            state = tuple(s.unsqueeze(1) for s in state)
        for s in state:
            if s.shape != rows:
                raise ValueError(f"an initial state must be {list(rows)}, got {list(s.shape)}")
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                y = F.dropout(y, self.dropout, self.training)
            outputs = []
            for direction in self._directions:
                start = tuple(s[len(last)] for s in state)
                out, end = self._run_own_steps(y, start, self.cell(f"_l{layer}{direction}"), mask, bool(direction))
                outputs.append(out)
                last.append(end)
            y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        ends = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        return steps.restore(y), tuple(steps.restore_state(end) for end in ends)

    def extra_repr(self) -> str:
        """Show what decides the result."""
        flags = "".join(f", {name}=True" for name in ("batch_first", "bidirectional") if getattr(self, name))
        layers = f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        return f"{self.input_size}, {self.hidden_size}{layers}{flags}, norm={self.norm.cfg.name}, impl={self.norm.impl}"


def _factory(norm: NormFactory | NormConfig | str, impl: str | None, fields: Mapping[str, Any]) -> NormFactory:
    if isinstance(norm, str):
        return NormFactory(norm_config(norm, **fields), impl or "auto")
    if fields:
        raise ConfigError(f"{next(iter(fields))}: fields of the norm go with its name, or into the NormConfig given")
    if isinstance(norm, NormConfig):
        return NormFactory(norm, impl or "auto")
    if impl is not None and impl != norm.impl:
        raise ConfigError(f"impl={impl}: the factory given makes norms with impl={norm.impl}; leave impl out")
    return norm
