"""CUDA graphs of functions of tensors: the launches of a whole pass, recorded once for a shape and then replayed.

A graph reads and writes fixed memory. Inputs are therefore copied in and results copied out, which makes a replayed
call as free of side effects as the function itself; both copies together are small against a pass over many steps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = Sequence[Tensor | None]
Function = Callable[..., Tensors]
#: Records a call of a function on fixed inputs; returns its fixed results, and what fills them anew.
Capture = Callable[[Function, Tensors], tuple[Tensors, Callable[[], None]]]

#: Calls of a shape before it is recorded: kernels compile in the first, and a shape must return to be worth it.
_CALLS_BEFORE = 2
#: Shapes whose graphs are kept, the last ones used. Each holds a copy of the inputs, the results and what lies between.
_MOST = 16
#: Shapes whose calls are counted, after which counting begins anew: lengths that never return must not pile up.
_MOST_COUNTED = 1024


@dataclass
class _Recorded:
    inputs: Tensors
    results: Tensors
    replay: Callable[[], None]


def capture_on_gpu(function: Function, inputs: Tensors) -> tuple[Tensors, Callable[[], None]]:
    """Record `function` as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries set up their workspaces here, which a recording must not see
        function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # Other threads may do as they like: the backward pass is recorded in autograd's.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = function(*inputs)
    return results, graph.replay


class Graphs:
    """Runs functions, and from the third call with the same shapes on replays them."""

    def __init__(self, capture: Capture = capture_on_gpu) -> None:
        self._capture = capture
        self._calls: dict[Hashable, int] = {}
        self._recorded: OrderedDict[Hashable, _Recorded] = OrderedDict()

    def __len__(self) -> int:
        """Return how many graphs are kept."""
        return len(self._recorded)

    def run(self, name: Hashable, function: Function, inputs: Tensors) -> Tensors:
        """Return what `function(*inputs)` returns, which must not be views of the inputs, in memory of its own.

        `name` says what the function depends on beside the inputs: calls of one name and equal shapes, types, strides
        and devices must do the same work.
        """
        key = (name, *(None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in inputs))
        recorded = self._recorded.get(key)
        if recorded is None:
            if len(self._calls) >= _MOST_COUNTED:
                self._calls.clear()
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] <= _CALLS_BEFORE:
                return function(*inputs)
            recorded = self._record(function, inputs)
            self._recorded[key] = recorded
            while len(self._recorded) > _MOST:
                self._recorded.popitem(last=False)
        else:
            for fixed, given in zip(recorded.inputs, inputs, strict=True):
                if fixed is not None and given is not None:
                    fixed.copy_(given)
        self._recorded.move_to_end(key)
        recorded.replay()
        return [None if t is None else t.clone() for t in recorded.results]

    def _record(self, function: Function, inputs: Tensors) -> _Recorded:
        # Ordinary memory, whatever mode the caller is in, and of its own for every element: later calls write to it.
        with torch.inference_mode(False), torch.no_grad():
            fixed = [None if t is None else torch.empty_like(t).copy_(t) for t in inputs]
            results, replay = self._capture(function, fixed)
        return _Recorded(fixed, results, replay)
