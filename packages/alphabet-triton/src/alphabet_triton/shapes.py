"""Sizes, and the buffers that they determine. Time is the contiguous axis of every buffer but the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

ALIGNMENT = 16  # tokens: every row of a buffer begins where vector loads can
MOMENTS = 7


@dataclass(frozen=True)
class Shape:
    """What kernels and buffers are sized by."""

    batch: int
    length: int
    channels: int
    width: int
    modes: int

    @property
    def stride(self) -> int:
        """Tokens from one row of a buffer to the next."""
        return self.length + -self.length % ALIGNMENT

    @property
    def features(self) -> tuple[int, int, int]:
        """(B, D, T)."""
        return self.batch, self.width, self.stride

    @property
    def states(self) -> tuple[int, int, int]:
        """(B, 2M, T)."""
        return self.batch, 2 * self.modes, self.stride

    @property
    def tokens(self) -> tuple[int, int]:
        """(B, T)."""
        return self.batch, self.stride

    @property
    def sums(self) -> tuple[int, int, int, int]:
        """(B, 2, 7, M)."""
        return self.batch, 2, MOMENTS, self.modes


@dataclass(frozen=True)
class Masks:
    """valid and gate (B, T) as bytes, or one byte each that nobody reads."""

    valid: Tensor
    gate: Tensor

    @property
    def given(self) -> bool:
        return self.valid.ndim == 2


def no_masks(device: torch.device) -> Masks:
    """Every token valid and available."""
    nothing = torch.zeros(1, dtype=torch.uint8, device=device)
    return Masks(nothing, nothing)
