"""Folded weights for training: how gradients of theirs get back to the parameters.

After every step the frames are at their base. Then the derivative of `weights.fold` is written out by hand, since
autograd through a hundred small operations takes a third as long as both kernels together. Elsewhere autograd does it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from alphabet_core import Alphabet
from alphabet_core.frame import TANGENT_SCALE, Frame
from alphabet_core.model import Bank
from alphabet_core.poles import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX
from numpy.typing import NDArray
from torch import Tensor, nn

from alphabet_cpu.lanes import LANES
from alphabet_cpu.layout import unpack
from alphabet_cpu.weights import Array, fold, pack

Doubles = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class FoldingByGraph:
    """Any model: `fold` under autograd."""

    def __init__(self, model: Alphabet) -> None:
        self._folded = fold(model)
        self.weights = pack(model, [tensor.detach().numpy() for tensor in self._folded])

    def give_back(self, gradient: Array) -> None:
        """Add the parameters' gradients, given that of the packed weights, to `.grad`."""
        parts = unpack(gradient, self.weights.sizes)
        pairs = [(f, torch.from_numpy(g)) for f, g in zip(self._folded, parts, strict=True) if f.requires_grad]
        torch.autograd.backward([f for f, _ in pairs], [g.view(f.shape).to(f.dtype) for f, g in pairs])


@dataclass(frozen=True)
class BankParts:
    """What a bank's folded weights were made of: frame (D, M) complex, hold's gain and poles (M,), norm gain (D,)."""

    frame: Complexes
    poles: Complexes
    transition: Complexes
    gain: Complexes
    norm: Doubles


def is_at_base(model: Alphabet) -> bool:
    """Whether both frames train and have a zero tangent, and the poles train too."""
    return model.config.trainable_poles and all(
        isinstance(bank.frame, Frame) and not bank.frame.tangent.any() for bank in model.banks()
    )


class FoldingAtBase:
    """A model whose frames are at their base: the same weights and gradients by hand, in float64."""

    def __init__(self, model: Alphabet) -> None:
        synthesis = model.synthesis
        assert synthesis is not None
        self._model = model
        self._parts = parts = [_read_bank(bank, model.config.modes) for bank in model.banks()]
        arrays = [_pad(_doubles(model.project.weight)).T]
        for bank, part in zip(model.banks(), parts, strict=True):
            taps = np.concatenate((_doubles(bank.lift.kernel), _doubles(bank.lift.bias)[:, None]), axis=1)
            drive = part.norm[:, None] * part.frame * part.gain
            arrays += [_pad(taps).T, _pad(_interleave(drive)), _interleave(part.transition)]
        scale = _doubles(synthesis.scale)
        back = _pad(_interleave(scale[:, None] * parts[0].frame)).T
        through = _pad(scale * _doubles(synthesis.feedthrough) * parts[0].norm)
        self.weights = pack(model, [*arrays[:4], back, through, *arrays[4:]])

    def give_back(self, gradient: Array) -> None:
        """Add the parameters' gradients, given that of the packed weights, to `.grad`.

        A gradient of complex z is dL/dRe + i dL/dIm; through w = a z it becomes conj(a) dw.
        """
        model, parts, synthesis = self._model, self._parts, self._model.synthesis
        assert synthesis is not None
        width, modes = model.config.width, model.config.modes
        doubles = unpack(gradient.astype(np.float64), self.weights.sizes)
        d_project, d_back, d_through = doubles[0], doubles[4], doubles[5][:width]
        add_gradient(model.project.weight, d_project.reshape(model.config.channels, -1)[:, :width].T)

        scale, feedthrough, norm = _doubles(synthesis.scale), _doubles(synthesis.feedthrough), parts[0].norm
        d_synthesis = _separate(d_back.reshape(-1, width + -width % LANES).T[:width], modes)  # (D, M)
        d_scale = (d_synthesis.conj() * parts[0].frame).real.sum(axis=1) + d_through * feedthrough * norm
        add_gradient(synthesis.scale, d_scale)
        add_gradient(synthesis.feedthrough, d_through * scale * norm)

        direct, cascaded = model.banks()
        _return_bank(direct, parts[0], doubles[1:4], scale[:, None] * d_synthesis, d_through * scale * feedthrough)
        _return_bank(cascaded, parts[1], doubles[6:9], np.zeros((width, modes), np.complex128), np.zeros(width))


def _return_bank(
    bank: Bank, part: BankParts, gradients: tuple[Doubles, ...], d_frame: Complexes, d_norm: Doubles
) -> None:
    """From a bank's taps, drive matrix and transition; d_frame and d_norm are what the synthesis adds."""
    d_taps, d_drive, d_transition = gradients
    width, modes = part.frame.shape
    d_lift = d_taps.reshape(6, -1)[:, :width]
    add_gradient(bank.lift.kernel, d_lift[:5].T)
    add_gradient(bank.lift.bias, d_lift[5])
    d_matrix = _separate(d_drive.reshape(-1, d_transition.size)[:width], modes)  # (D, M)
    turned = d_matrix * part.gain.conj()
    add_gradient(bank.norm.gain, d_norm + (turned.conj() * part.frame).real.sum(axis=1))
    d_gain = (part.norm[:, None] * part.frame.conj() * d_matrix).sum(axis=0)
    _return_poles(bank, part, _separate(d_transition, modes), d_gain)
    _return_frame(bank.frame, d_frame + part.norm[:, None] * turned)


def _return_poles(bank: Bank, part: BankParts, d_transition: Complexes, d_gain: Complexes) -> None:
    """Through p = exp(lambda) and gain = (p - 1) / lambda, whose derivatives are p and (p - gain) / lambda."""
    d_pole = d_transition * part.transition.conj() + d_gain * ((part.transition - part.gain) / part.poles).conj()
    share = (-part.poles.real - DECAY_MIN) / (DECAY_MAX - DECAY_MIN)
    turn = part.poles.imag / FREQUENCY_MAX
    add_gradient(bank.poles.raw_decay, -d_pole.real * (DECAY_MAX - DECAY_MIN) * share * (1.0 - share))
    add_gradient(bank.poles.raw_frequency, d_pole.imag * FREQUENCY_MAX * (1.0 - turn * turn))


def _return_frame(frame: nn.Module, d_frame: Complexes) -> None:
    """Through base (1 + skew(tangent)) at a zero tangent."""
    assert isinstance(frame, Frame)
    packed = np.concatenate((d_frame.real, d_frame.imag), axis=1)
    moved = _doubles(frame.base).T @ packed  # (D, 2M)
    moved[: frame.columns] -= moved[: frame.columns].T.copy()
    add_gradient(frame.tangent, TANGENT_SCALE * moved)


def _read_bank(bank: Bank, modes: int) -> BankParts:
    assert isinstance(bank.frame, Frame)
    columns = _doubles(bank.frame.base)[:, : bank.frame.columns]
    poles = -_doubles(bank.poles.decay) + 1j * _doubles(bank.poles.frequency)
    return BankParts(
        frame=columns[:, :modes] + 1j * columns[:, modes:],
        poles=poles,
        transition=np.exp(poles),
        gain=np.asarray(np.expm1(poles) / poles, np.complex128),
        norm=_doubles(bank.norm.gain),
    )


def _doubles(tensor: Tensor) -> Doubles:
    array: Doubles = tensor.detach().numpy().astype(np.float64)
    return array


def _pad(array: NDArray[np.float64]) -> Doubles:
    """Zeros up to a multiple of the lanes along the first axis."""
    missing = -len(array) % LANES
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1)) if missing else array


def _interleave(values: Complexes) -> Doubles:
    """(..., M) to (..., 2 padded M): sixteen real parts, their sixteen imaginary parts, the next sixteen."""
    missing = -values.shape[-1] % LANES
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)]) if missing else values
    blocks = padded.reshape(*values.shape[:-1], -1, LANES)
    return np.stack((blocks.real, blocks.imag), axis=-2).reshape(*values.shape[:-1], -1)


def _separate(interleaved: Doubles, modes: int) -> Complexes:
    """The inverse of `_interleave`."""
    blocks = interleaved.reshape(*interleaved.shape[:-1], -1, 2, LANES)
    values: Complexes = (blocks[..., 0, :] + 1j * blocks[..., 1, :]).reshape(*interleaved.shape[:-1], -1)
    return values[..., :modes]


def add_gradient(parameter: Tensor, gradient: Doubles) -> None:
    """Add to the parameter's `.grad`."""
    tensor = torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float32))
    parameter.grad = tensor if parameter.grad is None else parameter.grad + tensor
