"""Rows without padding and the padded array are two forms of one thing, gradients too."""

from itertools import accumulate

import pytest
import torch

from rmsrepro.layers.packing import Packing


@pytest.mark.parametrize("lengths", [[3, 1, 4], [4, 4]], ids=["with padding", "without"])
def test_rows_and_padded_arrays_are_turned_into_each_other(lengths):
    packing = Packing.of(torch.tensor(lengths), 4)
    padded = torch.randn(len(lengths), 4, 2)
    rows = packing.rows(padded)
    expected = torch.cat([sequence[:length] for sequence, length in zip(padded, lengths, strict=True)])
    assert torch.equal(rows, expected)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    assert torch.equal(packing.padded(rows), padded * mask.unsqueeze(-1))
    assert packing.starts.tolist() == [0, *accumulate(lengths)]


def test_gradients_go_to_the_rows_that_values_came_from():
    packing = Packing.of(torch.tensor([2, 3]), 3)
    padded = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    rows = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(packing.rows, padded)
    assert torch.autograd.gradcheck(packing.padded, rows)
