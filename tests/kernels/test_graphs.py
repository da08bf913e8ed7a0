"""Recorded calls: results in memory of their own, whatever happens to the inputs and however often it is replayed."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from rmsrepro.kernels.triton import graphs as module
from rmsrepro.kernels.triton.graphs import Graphs, capture_on_gpu
from tests.kernels.support import capture_by_hand

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def recorder(device):
    return Graphs(capture_on_gpu if device == "cuda" else capture_by_hand)


@pytest.mark.parametrize("device", DEVICES)
def test_replayed_calls_return_what_the_function_does_and_leave_earlier_results_alone(device):
    graphs = recorder(device)
    weight = torch.randn(4, 4, device=device)

    def function(a, b):
        return [a @ weight + (0 if b is None else b), None, (2 * a).t()]

    results, expected = [], []
    for call in range(6):
        a = torch.randn(3, 4, device=device)
        b = torch.randn(3, 4, device=device) if call % 2 else None
        results.append(graphs.run("name", function, [a, b]))
        expected.append([part if part is None else part.clone() for part in function(a, b)])
        a.zero_()
    torch.testing.assert_close(results, expected)


def test_only_what_returns_is_recorded():
    seen = []

    def capture(function, inputs):
        seen.append(inputs[0].shape)
        return capture_by_hand(function, inputs)

    graphs = Graphs(capture)
    for length in (5, 7, 5, 9, 5, 11, 5):
        graphs.run("name", lambda a: [a + 1], [torch.zeros(length)])
    assert seen == [torch.Size([5])]
    graphs.run("other name", lambda a: [a + 1], [torch.zeros(5)])
    graphs.run("name", lambda a: [a + 1], [torch.zeros(5, dtype=torch.float64)])
    assert len(seen) == len(graphs) == 1


def test_the_graphs_used_last_are_kept(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    seen = []

    def capture(function, inputs):
        seen.append(len(inputs[0]))
        return capture_by_hand(function, inputs)

    graphs = Graphs(capture)
    for length in (1, 1, 1, 2, 2, 2, 1, 3, 3, 3, 1, 2):
        (result,) = graphs.run("name", lambda a: [2 * a], [torch.ones(length)])
        assert result.tolist() == [2.0] * length
    assert seen == [1, 2, 3, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_inputs_that_share_memory_or_come_in_inference_mode_are_recorded_too(device):
    graphs = recorder(device)

    def call(number):
        given = torch.full((), float(number), device=device).expand(2, 3)
        (result,) = graphs.run("name", lambda a: [a + 1], [given])
        torch.testing.assert_close(result, given + 1)

    with torch.inference_mode():
        for number in range(3):
            call(number)
    assert len(graphs) == 1
    call(3)


def test_shapes_that_never_return_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(module, "_MOST_COUNTED", 4)
    graphs = recorder("cpu")
    for length in range(20):
        graphs.run("name", lambda a: [a + 1], [torch.zeros(length)])
    assert len(graphs._calls) <= 4
