"""Sequences of different lengths: packed, with their lengths, or with a mask, brought to one form and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


@dataclass
class Steps:
    """A batch with time first, and what is needed to give the result the form that the input had."""

    x: Tensor
    """[T, B, in]"""
    mask: Tensor | None
    """[T, B], true where the step counts; None: everywhere."""
    lengths: Tensor | None = None
    """[B] on the CPU, when the input was packed."""
    packed: PackedSequence | None = None
    batch_first: bool = False
    batched: bool = True

    def restore(self, y: Tensor) -> Tensor | PackedSequence:
        """Give outputs [T, B, n] the form of the input."""
        if self.packed is not None and self.lengths is not None:
            order, lengths = self.packed.sorted_indices, self.lengths
            if order is not None:
                y, lengths = y.index_select(1, order), lengths[order.cpu()]
            data, batch_sizes, *_ = pack_padded_sequence(y, lengths)
            return PackedSequence(data, batch_sizes, order, self.packed.unsorted_indices)
        if not self.batched:
            return y.squeeze(1)
        return y.transpose(0, 1) if self.batch_first else y

    def restore_state(self, state: Tensor) -> Tensor:
        """Give a state [L, B, H] the form of the input's batch."""
        return state if self.batched else state.squeeze(1)


@dataclass
class OwnSteps:
    """Sequences moved so that the k-th step that counts in each of them is step k of the loop, whatever its padding."""

    order: Tensor
    """[T, B]: where step k of each sequence stands; behind its last one, steps that do not count."""
    taken: Tensor
    """[T, B]: how many steps a sequence has taken at each position."""
    mask: Tensor
    """[T, B], true where the moved step counts."""

    @classmethod
    def of(cls, mask: Tensor, reverse: bool) -> OwnSteps:
        """Return the layout of a loop over `mask` [T, B], from the last position to the first with `reverse`."""
        last = len(mask) - 1
        seen = mask.flip(0) if reverse else mask
        order = seen.logical_not().to(torch.uint8).argsort(dim=0, stable=True)
        taken = seen.cumsum(0)
        if reverse:
            order, taken = last - order, taken.flip(0)
        return cls(order, taken, mask.gather(0, order))

    def moved(self, x: Tensor) -> Tensor:
        """Bring the steps of x [T, B, n] into the loop's order."""
        return x.gather(0, self.order.unsqueeze(-1).expand_as(x))

    def back(self, y: Tensor, start: Tensor) -> Tensor:
        """Return the outputs [T, B, n] at their positions, given the loop's `y` and what was before it, `start` [B, n].

        Where a step does not count stands the output of the last one that did.
        """
        return torch.cat([start.unsqueeze(0), y]).gather(0, self.taken.unsqueeze(-1).expand_as(y))


def steps_of(
    x: Tensor | PackedSequence, width: int, batch_first: bool, lengths: Tensor | None, mask: Tensor | None
) -> Steps:
    """Bring an input [T, B, width], [B, T, width] with `batch_first`, [T, width] or packed to one form.

    `lengths` is [B]; `mask` is [T, B], or [B, T] with `batch_first`, and nonzero where the step counts.
    """
    if isinstance(x, PackedSequence):
        if lengths is not None or mask is not None:
            raise ValueError("a packed sequence knows its lengths; give neither lengths nor mask with it")
        padded, known = pad_packed_sequence(x)
        _check_width(padded, width)
        whole = bool((known == padded.shape[0]).all())
        return Steps(padded, None if whole else _length_mask(known, padded), known, packed=x)
    if x.dim() not in (2, 3):
        raise ValueError(f"a recurrent layer expects an input of 2 or 3 dimensions, got {list(x.shape)}")
    _check_width(x, width)
    batched = x.dim() == 3
    if not batched:
        x, batch_first = x.unsqueeze(1), False
        mask = mask.reshape(-1, 1) if mask is not None else None
        lengths = lengths.reshape(1) if lengths is not None else None
    if batch_first:
        x = x.transpose(0, 1)
        mask = mask.transpose(0, 1) if mask is not None else None
    if x.shape[0] == 0:
        raise ValueError("a recurrent layer expects at least one time step, got none")
    if lengths is not None and mask is not None:
        raise ValueError("lengths and mask say the same thing; give one of them")
    if lengths is not None:
        if lengths.shape != x.shape[1:2] or bool((lengths > x.shape[0]).any()) or bool((lengths < 0).any()):
            raise ValueError(f"lengths must be {x.shape[1]} numbers from 0 to {x.shape[0]}, got {lengths.tolist()}")
        mask = _length_mask(lengths, x)
    elif mask is not None:
        if mask.shape != x.shape[:2]:
            raise ValueError(f"mask must cover {list(x.shape[:2])} steps and sequences, got {list(mask.shape)}")
        mask = mask.to(device=x.device) != 0
    return Steps(x, mask, batch_first=batch_first, batched=batched)


def _length_mask(lengths: Tensor, x: Tensor) -> Tensor:
    return torch.arange(x.shape[0], device=x.device).unsqueeze(1) < lengths.to(x.device).unsqueeze(0)


def _check_width(x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ValueError(f"a recurrent layer with input_size={width} got an input {list(x.shape)}")
