"""The tensors that a recording reads: values and masks of one shape, in memory that does not move."""

from dataclasses import dataclass
from typing import Self

import torch
from alphabet_core import Sequence
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """The inputs of the kernels: values (B, T, C), and masks valid and gate (B, T) as bytes, both or neither.

    valid says which tokens count; gate says at which of them the direct bank is driven.
    """

    values: Tensor
    valid: Tensor | None
    gate: Tensor | None

    @classmethod
    def read(cls, sequence: Sequence) -> Self:
        """The inputs that describe a sequence; its values are detached, and share memory if they are contiguous."""
        return cls(sequence.values.detach().contiguous(), *read_masks(sequence))

    def clone(self) -> Self:
        """A copy in memory of its own."""
        valid, gate = (None if mask is None else mask.clone() for mask in (self.valid, self.gate))
        return type(self)(self.values.clone(), valid, gate)

    def copy_(self, given: Self) -> None:
        """Overwrite these inputs with others of the same key."""
        self.values.copy_(given.values)
        for mine, other in ((self.valid, given.valid), (self.gate, given.gate)):
            if mine is not None and other is not None:
                mine.copy_(other)

    def copy_sequence(self, sequence: Sequence) -> None:
        """Overwrite these inputs with a sequence of the same key."""
        self.values.copy_(sequence.values)
        if self.valid is not None and self.gate is not None:
            for mine, mask in ((self.valid, sequence.valid), (self.gate, sequence.available)):
                mine.fill_(1) if mask is None else mine.copy_(mask)


def recording_key(values: Tensor, observed: Tensor | None, valid: Tensor | None) -> tuple[object, ...]:
    """The key of a call's recording: shape, whether there are masks, and device."""
    return (*values.shape, observed is not None or valid is not None, values.device)


def read_masks(sequence: Sequence) -> tuple[Tensor | None, Tensor | None]:
    """The masks valid and gate (B, T) as bytes, or None for both; if only one was given, the other is all ones."""
    masks = (sequence.valid, sequence.available)
    if masks == (None, None):
        return None, None
    every = torch.ones(sequence.values.shape[:2], dtype=torch.uint8, device=sequence.values.device)
    valid, gate = (every if mask is None else mask.to(torch.uint8).contiguous() for mask in masks)
    return valid, gate
