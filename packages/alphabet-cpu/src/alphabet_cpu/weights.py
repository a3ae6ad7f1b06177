"""The model's parameters as the kernels read them: folded into fewer factors, padded to whole lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_core.fused import Folded, FoldedBank, fold
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.arithmetic import allocate
from alphabet_cpu.lanes import LANES
from alphabet_cpu.layout import TAPS

Array = NDArray[np.float32]


def arrange(folded: Folded, modes: int) -> list[Tensor]:
    """The nine tensors of the kernels: rows and columns in whole lanes, real and imaginary parts next to each other."""

    def arrange_bank(bank: FoldedBank) -> list[Tensor]:
        taps = torch.cat((bank.taps, bank.bias.unsqueeze(1)), dim=1)
        drive = _pad(_interleave(bank.drive, modes), 0)
        return [_pad(taps, 0).mT, drive, _interleave(bank.transition, modes)]

    return [
        _pad(folded.project, 0).mT,
        *arrange_bank(folded.direct),
        _pad(_interleave(folded.synthesis, modes), 0).mT,
        _pad(folded.through, 0),
        *arrange_bank(folded.cascaded),
    ]


@dataclass(frozen=True)
class Weights:
    """What the kernels take.

    packed: the folded weights one behind the other, with the sizes that `layout.unpack` goes by
    head (K, 14 M), bias (K,): the affine head as it is, M modes in each bank
    """

    sizes: tuple[int, int, int, int]
    packed: Array
    head: Array
    bias: Array
    modes: int


def count_sizes(config: AlphabetConfig) -> tuple[tuple[int, int, int, int], int]:
    """The sizes that the kernels go by, and how many packed weights that makes."""
    width, columns = config.width + -config.width % LANES, 2 * (config.modes + -config.modes % LANES)
    count = (config.channels + 2 * (TAPS + 1) + 1) * width + (3 * width + 2) * columns
    return (config.channels, config.width, width, columns), count


def pack(model: Alphabet, folded: Sequence[NDArray[Any]]) -> Weights:
    """The folded weights in one float32 array that begins a cache line."""
    packed = allocate(count_sizes(model.config)[1])
    np.concatenate([array.ravel() for array in folded], out=packed, casting="same_kind")
    return weigh(model, packed)


def weigh(model: Alphabet, packed: Array) -> Weights:
    """Packed weights with all that belongs to them."""
    head = model.head
    assert isinstance(head, nn.Linear)
    return Weights(
        sizes=count_sizes(model.config)[0],
        packed=packed,
        head=np.ascontiguousarray(head.weight.detach().numpy()),
        bias=np.ascontiguousarray(head.bias.detach().numpy()),
        modes=model.config.modes,
    )


def fold_and_pack(model: Alphabet) -> Weights:
    """The model's weights for a kernel that needs no gradients."""
    return pack(model, [tensor.detach().numpy() for tensor in arrange(fold(model), model.config.modes)])


def _pad(tensor: Tensor, axis: int) -> Tensor:
    """Zeros up to a multiple of the lanes along one axis."""
    missing = -tensor.shape[axis] % LANES
    shape = [*tensor.shape]
    shape[axis] = missing
    return torch.cat((tensor, tensor.new_zeros(shape)), dim=axis)


def _interleave(packed: Tensor, modes: int) -> Tensor:
    """(..., 2M) packed to (..., 2 padded M): sixteen real parts, their sixteen imaginary parts, the next sixteen."""
    re, im = (_pad(part, -1).unflatten(-1, (-1, LANES)) for part in packed.split(modes, dim=-1))
    return torch.stack((re, im), dim=-2).flatten(-3)
