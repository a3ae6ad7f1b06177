"""Buffers between kernels. Time is their contiguous axis, with rows that begin where vector loads can."""

import torch
from alphabet_core import AlphabetError
from torch import Tensor

ALIGNMENT = 16  # tokens
MOMENTS = 7


def row_stride(length: int) -> int:
    """Tokens from one row of a buffer to the next; what lies past the length is undefined."""
    return length + -length % ALIGNMENT


def tiles(size: int, block: int) -> int:
    """How many blocks cover a size."""
    return -(-size // block)


def contiguous(*tensors: Tensor) -> list[Tensor]:
    """Tensors as kernels read them, however their owner strides them."""
    return [tensor.contiguous() for tensor in tensors]


def add_up(rows: Tensor, *widths: int) -> list[Tensor]:
    """Sums over programs of rows (.., D, W), which lie side by side: a (D, w) for each of the widths."""
    return [part.sum(0) for part in rows.split(widths, dim=2)]


def masks_or_nothing(like: Tensor, *masks: Tensor | None) -> tuple[bool, list[Tensor]]:
    """Whether there are masks, and what to pass to a kernel: all of them (B, T) as bytes, or a byte that none reads."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        nothing = like.new_empty(1, dtype=torch.uint8)
        return False, [nothing for _ in masks]
    if len(given) < len(masks):
        raise AlphabetError("valid and gate come together; pass a mask of ones for the one that marks nothing")
    return True, [mask.to(torch.uint8).contiguous() for mask in given]
