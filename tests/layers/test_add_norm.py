"""The norm of a residual sum is the norm of the sum, whatever the norm's configuration."""

import pytest
import torch

from rmsrepro.layers.residual import add_norm
from rmsrepro.norms import build_norm

CASES = [
    ("rmsnorm", {}),
    ("rmsnorm", {"p": 0.3, "rounding": "floor"}),
    ("rmsnorm", {"p": 0.3, "rounding": "ceil"}),
    ("rmsnorm", {"eps": 0.1, "eps_placement": "outside"}),
    ("rmsnorm", {"gain_offset": 1.0, "shift": True}),
    ("rmsnorm", {"gain": False, "gain_offset": 1.0}),
    ("layernorm", {"shift": True, "eps": 0.1}),
    ("layernorm", {"gain_offset": 1.0}),
    ("l2norm", {}),
    ("none", {}),
]


@pytest.mark.parametrize("impl", ["auto", "composed"])
@pytest.mark.parametrize(("name", "fields"), CASES)
def test_it_equals_the_norm_of_the_sum(name, fields, impl):
    torch.manual_seed(0)
    norm = build_norm(name, 10, impl=impl, **fields)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    x, branch = torch.randn(2, 6, 10, requires_grad=True).unbind()
    normed, added = add_norm(norm, x, branch)
    assert torch.equal(added, x + branch)
    torch.testing.assert_close(normed, norm(x + branch))
    weights = torch.randn(6, 10)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), [x, branch]) for y in (normed, norm(x + branch)))
    torch.testing.assert_close(ours, theirs)
