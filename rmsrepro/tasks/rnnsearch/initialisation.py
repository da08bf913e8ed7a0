"""How the paper's RNNSearch starts: N(0, 1) / 100, and random orthogonal square matrices (paper, appendix A.1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmsrepro.layers.weights import copy_weight, effective_weight

_STD = 0.01


@torch.no_grad()
def initialise(model: nn.Module, mean: float = 0.0, unit_gains: bool = False) -> None:
    """Draw all weights of `model`, and set its biases to zero; gains and shifts of norms keep their start.

    `mean` is added to the normal draws only (paper figure 4): what the authors did to orthogonal matrices and to
    biases is not known. The matrices of a GRU's gates are drawn one by one. With `unit_gains` the gains of
    weight-normalised maps start from one.
    """
    for name, module in model.named_modules():
        is_gate = name.rsplit(".", 1)[-1].startswith(("linear_ih", "linear_hh"))
        if callable(getattr(module, "effective_weight", None)):
            copy_weight(module, draw(effective_weight(module), 3 if is_gate else 1, mean))
            gain = getattr(module, "gain", None)
            if unit_gains and isinstance(gain, nn.Parameter):
                gain.fill_(1.0)
            if isinstance(bias := getattr(module, "bias", None), nn.Parameter):
                bias.zero_()
            continue
        for own, parameter in module.named_parameters(recurse=False):
            if parameter.dim() == 2:
                parameter.copy_(draw(parameter, 3 if own.startswith(("weight_ih", "weight_hh")) else 1, mean))
            elif own == "score":
                parameter.normal_(mean, _STD)
            elif own.startswith("bias") and not _is_shift(module):
                parameter.zero_()


@torch.no_grad()
def unigram_(bias: Tensor, counts: Tensor) -> None:
    """Set `bias` [V] to the log-probabilities of a model that only counts: `counts` [V], one added to each."""
    bias.copy_((counts + 1.0).log() - (counts + 1.0).sum().log())


def draw(like: Tensor, blocks: int, mean: float) -> Tensor:
    """Return a matrix of the shape of `like` [blocks * n, m]: each block orthogonal where square, else normal."""
    rows = like.shape[0] // blocks
    if rows != like.shape[1]:
        return torch.empty_like(like).normal_(mean, _STD)
    return torch.cat([nn.init.orthogonal_(torch.empty_like(like[:rows])) for _ in range(blocks)])


def _is_shift(module: nn.Module) -> bool:
    """Say whether a parameter named bias is the shift of a norm."""
    return hasattr(module, "cfg") and hasattr(module, "dim")
