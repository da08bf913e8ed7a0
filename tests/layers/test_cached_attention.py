"""Attention of single queries to cached rows: the kernel and torch's operations find what float64 finds."""

from __future__ import annotations

import pytest
import torch

from rmsrepro.layers.scaled_dot_product import attend_cached, attend_memory


def draw(queries, heads, width, positions):
    """Return queries, a cache whose positions have different numbers of rows, and which of each is every query's."""
    torch.manual_seed(0)
    counts = [1 + (7 * s) % 5 for s in range(positions)]
    q, cache = torch.randn(queries, heads * width), [torch.randn(n, 2 * heads * width) for n in counts]
    return q, cache, torch.stack([torch.randint(n, (queries,)) for n in counts], 1)


def numbered(cache, rows):
    """Return the rows' numbers, counted through all positions."""
    return rows + torch.tensor([0, *(len(part) for part in cache[:-1])]).cumsum(0)


def expected(q, gathered, heads, mask=None):
    """Return attention in float64: q [N, D], gathered [N, S, 2 * D], mask [N, S]."""
    q, k, v = (x.double().unflatten(-1, (heads, -1)) for x in (q.unsqueeze(1), *gathered.chunk(2, -1)))
    scores = (q * k).sum(-1) * q.shape[-1] ** -0.5  # [N, S, H]
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(-1), -torch.inf)
    return (scores.softmax(1).unsqueeze(-1) * v).sum(1).flatten(1)


def gather(cache, rows):
    return torch.stack([part[rows[:, s]] for s, part in enumerate(cache)], 1)


#: Queries, heads, features of a head, positions: one of each; ends of vectors of both kinds; long and wide.
SIZES = [(1, 1, 1, 1), (3, 2, 5, 4), (64, 4, 32, 17), (7, 3, 33, 16), (5, 1, 70, 301), (0, 2, 4, 3)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_queries_find_what_float64_finds_at_any_size(size, path):
    q, cache, rows = draw(*size)
    found = attend_cached(q, cache, numbered(cache, rows), size[1])
    torch.testing.assert_close(found.double(), expected(q, gather(cache, rows), size[1]), rtol=2e-5, atol=2e-6)


def test_every_instruction_set_finds_the_same(kernels, instruction_set):
    q, cache, rows = draw(9, 3, 21, 35)
    found = attend_cached(q, cache, numbered(cache, rows), 3)
    torch.testing.assert_close(found.double(), expected(q, gather(cache, rows), 3), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("together", [1, 3])
def test_a_sequence_s_queries_see_its_positions_and_no_padding(together, path):
    torch.manual_seed(0)
    lengths = torch.tensor([5, 1, 18, 20])
    memory, q = torch.randn(4, 20, 2 * 12), torch.randn(4 * together, 12)
    mask = torch.arange(20) < lengths[:, None]
    memory[~mask] = torch.nan if path == "kernel" else 1e3
    found = attend_memory(q, memory, lengths, 2)
    wide = memory.masked_fill(~mask.unsqueeze(-1), 0.0).repeat_interleave(together, 0)
    wanted = expected(q, wide, 2, mask.repeat_interleave(together, 0))
    torch.testing.assert_close(found.double(), wanted, rtol=2e-5, atol=2e-6)


def test_no_query_changes_a_bit_of_another_s_result(kernels):
    q, cache, rows = draw(300, 4, 24, 40)
    whole = attend_cached(q, cache, numbered(cache, rows), 4)
    for n in (0, 150, 299):
        assert torch.equal(attend_cached(q[n : n + 1], cache, numbered(cache, rows[n : n + 1]), 4)[0], whole[n])


def test_scores_of_any_size_are_weighed(path):
    q, cache, rows = draw(3, 1, 4, 20)
    for scale in (1e4, 1e-30):
        found = attend_cached(q * scale, cache, numbered(cache, rows), 1)
        wanted = expected(q * scale, gather(cache, rows), 1)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=1e-5)


def test_what_is_no_number_stays_none(path):
    q, cache, rows = draw(4, 2, 3, 5)
    rows[:, 2] = torch.tensor([0, 0, 0, 1])
    cache[2][0, :3] = torch.nan  # the first head's key
    found = attend_cached(q, cache, numbered(cache, rows), 2)
    assert found[:3, :3].isnan().all()
    assert not found[:3, 3:].isnan().any()
    assert not found[3].isnan().any()


def test_gradients_are_those_of_torch():
    q, cache, rows = draw(4, 2, 3, 5)
    q.requires_grad_()
    attend_cached(q, cache, numbered(cache, rows), 2).sum().backward()
    (wanted,) = torch.autograd.grad(expected(q, gather(cache, rows), 2).sum(), q)
    torch.testing.assert_close(q.grad, wanted, rtol=1e-4, atol=1e-5)
