"""What a recording reads: the values and masks of its shape, in memory that does not move."""

from dataclasses import dataclass
from typing import Self

import torch
from alphabet_core import Sequence
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """values (B, T, C); valid and gate (B, T) as bytes, both or neither."""

    values: Tensor
    valid: Tensor | None
    gate: Tensor | None

    @classmethod
    def read(cls, sequence: Sequence) -> Self:
        """Of a sequence."""
        return cls(sequence.values.detach().contiguous(), *read_masks(sequence))

    @property
    def key(self) -> tuple[object, ...]:
        """What recordings are kept by."""
        return (*self.values.shape, self.valid is not None, self.values.device)

    def clone(self) -> Self:
        """The same in other memory."""
        valid, gate = (None if mask is None else mask.clone() for mask in (self.valid, self.gate))
        return type(self)(self.values.clone(), valid, gate)

    def copy_(self, given: Self) -> None:
        """Overwrite with another of the same key."""
        self.values.copy_(given.values)
        for mine, other in ((self.valid, given.valid), (self.gate, given.gate)):
            if mine is not None and other is not None:
                mine.copy_(other)


def read_masks(sequence: Sequence) -> tuple[Tensor | None, Tensor | None]:
    """Valid and gate (B, T) as bytes, both or neither; one that is missing beside the other marks everything."""
    masks = (sequence.valid, sequence.available)
    if masks == (None, None):
        return None, None
    every = torch.ones(sequence.values.shape[:2], dtype=torch.uint8, device=sequence.values.device)
    valid, gate = (every if mask is None else mask.to(torch.uint8).contiguous() for mask in masks)
    return valid, gate
