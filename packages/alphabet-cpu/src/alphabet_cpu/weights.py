"""The model's parameters as the kernels read them: folded into fewer factors, padded to whole lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_core.frame import FixedFrame, Frame
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.arithmetic import allocate
from alphabet_cpu.lanes import LANES

Array = NDArray[np.float32]
TAPS_AND_BIAS = 6


def fold(model: Alphabet) -> list[Tensor]:
    """The nine tensors of the inference kernel, as differentiable functions of the parameters.

    The norm's gain and the zero-order hold's complex gain are linear in the frame, the synthesis scale in its
    transpose, so all three become part of the matrices. Computed in float64: folding adds no rounding of its own.
    """
    direct, cascaded, synthesis = model.direct, model.cascaded, model.synthesis
    assert cascaded is not None
    assert synthesis is not None
    modes = model.config.modes
    frames = [_read_frame(bank.frame) for bank in (direct, cascaded)]
    folded = [_pad(model.project.weight.double(), 0).mT]
    for bank, frame in zip((direct, cascaded), frames, strict=True):
        taps = torch.cat((bank.lift.kernel, bank.lift.bias.unsqueeze(1)), dim=1)
        transition, gain = bank.poles.hold(torch.ones((), dtype=torch.float64, device=taps.device))
        frame_re, frame_im = (bank.norm.gain.double().unsqueeze(1) * frame).split(modes, dim=1)
        gain_re, gain_im = gain.double().split(modes)
        drive = torch.cat((frame_re * gain_re - frame_im * gain_im, frame_re * gain_im + frame_im * gain_re), dim=1)
        folded += [_pad(taps.double(), 0).mT, _pad(_interleave(drive, modes), 0), _interleave(transition, modes)]
    scale = synthesis.scale.double()
    back = _pad(_interleave(scale.unsqueeze(1) * frames[0], modes), 0).mT
    through = _pad(scale * synthesis.feedthrough.double() * direct.norm.gain.double(), 0)
    return [*folded[:4], back, through, *folded[4:]]


def _read_frame(frame: Frame | FixedFrame) -> Tensor:
    """The frame in float64; after a training step its tangent is zero, and the exponential can be left out."""
    if isinstance(frame, Frame) and not frame.tangent.any():
        return frame.to_first_order().double()
    matrix: Tensor = frame()
    return matrix.double()


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
    count = (config.channels + 2 * TAPS_AND_BIAS + 1) * width + (3 * width + 2) * columns
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
    return pack(model, [tensor.detach().numpy() for tensor in fold(model)])


def _pad(tensor: Tensor, axis: int) -> Tensor:
    """Zeros up to a multiple of the lanes along one axis."""
    missing = -tensor.shape[axis] % LANES
    shape = [*tensor.shape]
    shape[axis] = missing
    return torch.cat((tensor, tensor.new_zeros(shape)), dim=axis)


def _interleave(packed: Tensor, modes: int) -> Tensor:
    """(..., 2M) packed to (..., 2 padded M): sixteen real parts, their sixteen imaginary parts, the next sixteen."""
    re, im = (_pad(part.double(), -1).unflatten(-1, (-1, LANES)) for part in packed.split(modes, dim=-1))
    return torch.stack((re, im), dim=-2).flatten(-3)
