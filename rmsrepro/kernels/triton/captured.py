"""The recurrent layers on a GPU as CUDA graphs; the same functions as in `recurrent`, which runs what is not recorded.

Each step of a layer is two or three launches of some microseconds, longer than they compute at small sizes. A shape
that comes a third time is recorded; sequences whose lengths change from call to call are not, until they return.
"""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor

from rmsrepro.kernels.recurrent import RecurrentGrads, RecurrentSaved, RecurrentSpec, RecurrentTensors
from rmsrepro.kernels.triton import recurrent
from rmsrepro.kernels.triton.graphs import Graphs, Tensors

graphs = Graphs()
_TENSORS = [field.name for field in fields(RecurrentTensors) if field.name != "reverse"]
_GRADS = [field.name for field in fields(RecurrentGrads)]


def forward(spec: RecurrentSpec, t: RecurrentTensors, keep: bool) -> RecurrentSaved:
    """Run all steps; as `recurrent.forward`."""
    if _is_recording(t.x):
        return recurrent.forward(spec, t, keep)
    reverse = t.reverse

    def run(*given: Tensor | None) -> Tensors:
        return _saved_tensors(recurrent.forward(spec, _with(given, reverse), keep))

    return _saved(graphs.run(("forward", spec, reverse, keep), run, _given(t)))


def backward(
    spec: RecurrentSpec,
    t: RecurrentTensors,
    saved: RecurrentSaved,
    dy: Tensor | None,
    dh: Tensor | None,
    dc: Tensor | None,
    want_x: bool,
) -> RecurrentGrads:
    """Return all gradients; as `recurrent.backward`."""
    if _is_recording(t.x):
        return recurrent.backward(spec, t, saved, dy, dh, dc, want_x)
    reverse, count, kept = t.reverse, len(_TENSORS), _saved_tensors(saved)

    def run(*given: Tensor | None) -> Tensors:
        tensors, rest = _with(given[:count], reverse), given[count:]
        grads = recurrent.backward(spec, tensors, _saved(rest[:-3]), *rest[-3:], want_x=want_x)
        return [getattr(grads, name) for name in _GRADS]

    found = graphs.run(("backward", spec, reverse, want_x), run, [*_given(t), *kept, dy, dh, dc])
    return RecurrentGrads(**dict(zip(_GRADS, found, strict=True)))  # pyrefly: ignore[bad-argument-type]


def _is_recording(tensor: Tensor) -> bool:
    """Say whether someone else records a graph, of which this pass will then be a part."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _given(t: RecurrentTensors) -> list[Tensor | None]:
    return [getattr(t, name) for name in _TENSORS]


def _with(given: Tensors, reverse: bool) -> RecurrentTensors:
    return RecurrentTensors(*given, reverse=reverse)  # pyrefly: ignore[bad-argument-type]


def _saved_tensors(saved: RecurrentSaved) -> list[Tensor | None]:
    return [saved.input, saved.h, saved.c, saved.hidden, saved.gates, *saved.stats]


def _saved(tensors: Tensors) -> RecurrentSaved:
    a, h, c, hidden, gates, *stats = tensors
    return RecurrentSaved(a, h, c, hidden, gates, tuple(stats))  # pyrefly: ignore[bad-argument-type]
