"""The layout of tensors between kernels: time is contiguous, and rows begin where vector loads can."""

import torch
from alphabet_core import AlphabetError
from alphabet_core.fused import LAGS, LIFT_OFFSETS
from torch import Tensor

ALIGNMENT = 16  # tokens
TAPS = len(LIFT_OFFSETS)
POWERS = 11  # of a pole that are stored: 1, 2, 4, .., 1024, the tokens of sixteen chunks of 64
LAG_COUNT = 1 + len(LAGS)  # with lag zero, whose pairs are the valid tokens


def row_stride(length: int) -> int:
    """The number of tokens from one row of a buffer to the next; what lies past the length is undefined."""
    return length + -length % ALIGNMENT


def tiles(size: int, block: int) -> int:
    """The number of blocks that cover `size`."""
    return -(-size // block)


def contiguous(*tensors: Tensor) -> list[Tensor]:
    """The tensors as kernels read them: contiguous, whatever strides their owner gave them."""
    return [tensor.contiguous() for tensor in tensors]


def sum_over_programs(rows: Tensor, *widths: int) -> list[Tensor]:
    """The sums over programs of rows (P, D, W), split into tensors (D, w) whose widths w add up to W."""
    return [part.sum(0) for part in rows.split(widths, dim=2)]


def prepare_masks(like: Tensor, *masks: Tensor | None) -> tuple[bool, list[Tensor]]:
    """Whether there are masks, and the tensors to pass to a kernel: (B, T) as bytes, or a byte that it never reads."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        unread = like.new_empty(1, dtype=torch.uint8)
        return False, [unread for _ in masks]
    if len(given) < len(masks):
        raise AlphabetError(
            "valid and gate must be given together; pass a mask of ones for the one that leaves nothing out"
        )
    return True, [mask.to(torch.uint8).contiguous() for mask in given]
