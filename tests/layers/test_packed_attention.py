"""Attention over packed rows: the kernel and the padded way find what float64 finds, gradients too."""

from __future__ import annotations

import pytest
import torch

from rmsrepro.kernels.cpu.packed_attention import PackedAttention
from rmsrepro.layers.packed_attention import attend_between, attend_within
from rmsrepro.layers.packing import Packing


def draw(queries, keys, size):
    """Return packings of sequences of these lengths, and leaves qkv, q and kv."""
    packings = [
        Packing.of(torch.tensor(lengths, dtype=torch.int64), max(lengths, default=0)) for lengths in (queries, keys)
    ]
    shapes = (sum(queries), 3 * size), (sum(queries), size), (sum(keys), 2 * size)
    return packings, [torch.randn(shape, requires_grad=True) for shape in shapes]


def one_by_one(q, k, v, queries, keys, heads, causal):
    """Return the attention of each pair of sequences, written out."""
    found = []
    for parts in zip(q.split(queries), k.split(keys), v.split(keys), strict=True):
        own, other, values = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in parts)  # [H, T, d]
        scores = own @ other.transpose(1, 2) * own.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        found.append((scores.softmax(-1) @ values).transpose(0, 1).flatten(1))
    return torch.cat(found) if found else q + k + v


def with_gradients(results, leaves):
    weighted = sum((y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum() for y in results)
    return *results, *torch.autograd.grad(weighted, leaves)


def compare(queries, keys, heads, width):
    (own, others), leaves = draw(queries, keys, heads * width)
    for causal in (False, True):
        qkv, q, kv = leaves
        found = attend_within(qkv, own, heads, causal=causal), attend_between(q, kv, own, others, heads)
        doubles = [leaf.detach().double().requires_grad_() for leaf in leaves]
        expected = (
            one_by_one(*doubles[0].chunk(3, -1), queries, queries, heads, causal),
            one_by_one(doubles[1], *doubles[2].chunk(2, -1), queries, keys, heads, False),
        )
        for got, wanted in zip(with_gradients(found, leaves), with_gradients(expected, doubles), strict=True):
            torch.testing.assert_close(got.double(), wanted, rtol=2e-4, atol=2e-5)


#: Lengths of queries and of keys, heads, features of a head: one of each; ends of tiles and vectors; several blocks of
#: queries; no sequence.
SIZES = [
    ([1], [1], 1, 1),
    ([3, 1, 7], [9, 2, 5], 2, 5),
    ([16, 17], [33, 32], 4, 32),
    ([13] * 5, [31] * 5, 3, 33),
    ([97, 200], [130, 5], 2, 16),
    ([], [], 2, 4),
]


@pytest.mark.parametrize("sizes", SIZES, ids=[f"{len(q)} sequences, {h} x {d}" for q, _, h, d in SIZES])
def test_values_and_gradients_are_those_of_float64(sizes, path):
    compare(*sizes)


def test_every_instruction_set_finds_the_same(kernels, instruction_set):
    compare([5, 26], [18, 3], 3, 21)
    compare([97], [350], 1, 3)  # blocks of queries, and more keys than a tile reads in place


def test_a_query_without_keys_finds_zeros(kernels):
    (own, others), (_, q, kv) = draw([2, 3], [4, 0], 6)
    found = attend_between(q, kv, own, others, 2)
    dq, dkv = torch.autograd.grad(found.sum(), (q, kv))
    assert torch.equal(found[2:], torch.zeros(3, 6))
    assert torch.equal(dq[2:], torch.zeros(3, 6))
    assert found.isfinite().all()
    assert dkv.isfinite().all()


def test_no_sequence_changes_a_bit_of_another_s_result_or_gradient(kernels):
    lengths = [12, 30, 7] * 20
    (own, _), (qkv, _, _) = draw(lengths, lengths, 24)
    whole = attend_within(qkv, own, 4, causal=False)
    (gradient,) = torch.autograd.grad(whole.sin().sum(), qkv)
    alone = qkv[12:42].detach().requires_grad_()
    found = attend_within(alone, Packing.of(torch.tensor([30]), 30), 4, causal=False)
    assert torch.equal(found, whole[12:42])
    assert torch.equal(torch.autograd.grad(found.sin().sum(), alone)[0], gradient[12:42])


@pytest.mark.parametrize("scale", [1e5, 1e2, 1e-30])
def test_scores_of_any_size_are_weighed(scale, path):
    """A width whose root is no power of two, and more keys than a vector: products by the scale are rounded."""
    if path == "torch" and scale > 1e3:
        pytest.skip("torch's own gradients are less exact")
    lengths, size = [40], 32
    (own, _), (qkv, _, _) = draw(lengths, lengths, size)
    with torch.no_grad():
        qkv[:, :size] *= scale
    found = with_gradients([attend_within(qkv, own, 1, causal=True)], [qkv])
    double = qkv.detach().double().requires_grad_()
    wanted = with_gradients([one_by_one(*double.chunk(3, -1), lengths, lengths, 1, True)], [double])
    for got, right in zip(found, wanted, strict=True):
        for some, same in zip(got.double().chunk(3, -1), right.chunk(3, -1), strict=True):
            torch.testing.assert_close(some, same, rtol=1e-2, atol=1e-3 * same.abs().max().item() + 1e-5)


def test_what_is_no_number_stays_in_its_sequence(path):
    (own, _), (qkv, _, _) = draw([3, 4], [3, 4], 4)
    with torch.no_grad():
        qkv[1] = torch.nan
    found = attend_within(qkv, own, 2, causal=False)
    assert found[:3].isnan().all()
    assert found[3:].isfinite().all()


def test_dropout_of_weights_is_drawn_at_every_call(path):
    (own, _), (qkv, q, kv) = draw([6, 6], [6, 6], 8)
    for attention in (
        lambda dropout: attend_within(qkv, own, 2, causal=False, dropout=dropout),
        lambda dropout: attend_between(q, kv, own, own, 2, dropout=dropout),
    ):
        assert not torch.equal(attention(0.5), attention(0.5))
        assert torch.equal(attention(0.0), attention(0.0))


def test_only_what_wants_a_gradient_gets_one_and_each_backward_pass_the_same(kernels):
    (own, others), (_, q, kv) = draw([3, 4], [5, 2], 4)
    both = torch.autograd.grad(attend_between(q, kv, own, others, 2).sin().sum(), (q, kv))
    for number, leaves in enumerate([(q, kv.detach()), (q.detach(), kv)]):
        loss = attend_between(*leaves, own, others, 2).sin().sum()
        for _ in range(2):
            assert torch.equal(torch.autograd.grad(loss, leaves[number], retain_graph=True)[0], both[number])


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_operands_may_be_parts_of_wider_arrays(rows, path):
    wide = torch.randn(rows, 30, requires_grad=True)
    packing = Packing.of(torch.tensor([rows]), rows)
    found = attend_within(wide[:, :24], packing, 2, causal=True)
    (gradient,) = torch.autograd.grad(found.sum(), wide)
    alone = wide[:, :24].detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(attend_within(alone, packing, 2, causal=True).sum(), alone)
    torch.testing.assert_close(gradient[:, :24], expected)


def test_a_second_derivative_is_refused_instead_of_being_wrong(kernels):
    (own, _), (qkv, _, _) = draw([3], [3], 4)
    (gradient,) = torch.autograd.grad(attend_within(qkv, own, 2, causal=True).sin().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        gradient.square().sum().backward()


def test_threads_change_no_bit(kernels):
    lengths = [30] * 40
    (own, _), (qkv, _, _) = draw(lengths, lengths, 64)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(with_gradients([attend_within(qkv, own, 4, causal=True)], [qkv]))
    finally:
        torch.set_num_threads(threads)
    for others in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_rows_and_features_that_do_not_fit_are_refused(kernels):
    (own, others), (qkv, q, kv) = draw([3, 4], [3, 4], 4)
    one = Packing.of(torch.tensor([7]), 7)
    refused = [
        ("6 rows", lambda: attend_within(qkv[:6], own, 2, causal=False)),
        ("2 and 1 sequences", lambda: attend_between(q, kv, own, one, 2)),
        ("as many features", lambda: attend_within(qkv, own, 3, causal=False)),
        ("as many features", lambda: attend_between(q, kv[:, :6], own, others, 2)),
        (
            "same starts",
            lambda: PackedAttention(own.starts, own.starts + torch.tensor([0, 1, 0]), 2, True).forward(q, q, q),
        ),
    ]
    for said, call in refused:
        with pytest.raises(ValueError, match=said):
            call()
