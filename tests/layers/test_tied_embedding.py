"""The tied embedding gives the gradients that two separate uses of its matrix would."""

import torch
import torch.nn.functional as F

from rmsrepro.layers.linear_cross_entropy import linear_cross_entropy
from rmsrepro.layers.tied_embedding import tied_embedding


def test_rows_and_gradient_are_those_of_embedding_and_linear_map_together():
    torch.manual_seed(0)
    weight, bias = torch.randn(9, 4, requires_grad=True), torch.zeros(9)
    ids, targets = torch.tensor([[1, 2, 1], [8, 1, 0]]), torch.tensor([0, 3, 3, 8, 1, 2])
    rows, again = tied_embedding(ids, weight)
    assert torch.equal(rows, F.embedding(ids, weight))
    loss = linear_cross_entropy(rows.tanh().flatten(0, 1), again, bias, targets)
    stock = F.cross_entropy(F.embedding(ids, weight).tanh().flatten(0, 1) @ weight.t(), targets, reduction="sum")
    torch.testing.assert_close(torch.autograd.grad(loss, weight), torch.autograd.grad(stock, weight))


def test_gradients_accumulate_over_passes():
    weight = torch.randn(5, 3, requires_grad=True)
    for _ in range(2):
        rows, again = tied_embedding(torch.tensor([4, 4, 1]), weight)
        (rows.sum() + (2.0 * again).sum()).backward()
    torch.testing.assert_close(weight.grad[:, 0], torch.tensor([4.0, 6.0, 4.0, 4.0, 8.0]))
