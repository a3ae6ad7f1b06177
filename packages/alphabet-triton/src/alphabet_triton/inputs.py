"""The tensors that a recording reads: values and masks of one shape, in memory that does not move."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from alphabet_core import Sequence, value_checks
from alphabet_core.fused import values_must_be_checked
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

    def copy_call(
        self, values: Tensor, observed: Tensor | None, valid: Tensor | None, *, read: Callable[[], Sequence]
    ) -> None:
        """Overwrite these inputs with those of a call of the same key, which `read` reads and checks.

        The key holds whatever a check of structure looks at, so without masks values are copied as they are.
        """
        if observed is valid is None and not values_must_be_checked():
            self.values.copy_(values)
        else:
            with value_checks(None):
                self.copy_sequence(read())

    def copy_sequence(self, sequence: Sequence) -> None:
        """Overwrite these inputs with a sequence of the same key."""
        self.values.copy_(sequence.values)
        if self.valid is not None and self.gate is not None:
            for mine, mask in ((self.valid, sequence.valid), (self.gate, sequence.available)):
                mine.fill_(1) if mask is None else mine.copy_(mask)


def recording_key(values: object, observed: Tensor | None, valid: Tensor | None) -> tuple[object, ...] | None:
    """The key of a call's recording: all that a check of the values' structure looks at, and whether there are masks.

    The type too: torch's masked tensors, say, would be copied without their mask. None for values that cannot have a
    recording, which `read_sequence` refuses in words.
    """
    if not isinstance(values, Tensor) or values.is_nested:
        return None
    masked = observed is not None or valid is not None
    return type(values), values.shape, values.dtype, values.device, values.layout, masked


def read_masks(sequence: Sequence) -> tuple[Tensor | None, Tensor | None]:
    """The masks valid and gate (B, T) as bytes, or None for both; if only one was given, the other is all ones."""
    masks = (sequence.valid, sequence.available)
    if masks == (None, None):
        return None, None
    every = torch.ones(sequence.values.shape[:2], dtype=torch.uint8, device=sequence.values.device)
    valid, gate = (every if mask is None else mask.to(torch.uint8).contiguous() for mask in masks)
    return valid, gate
