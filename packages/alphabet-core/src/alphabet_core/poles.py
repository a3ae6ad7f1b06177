"""Stable Laplace poles and their exact zero-order hold (Algorithm 1, lines 1-2; the recurrence's coefficients)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from alphabet_core.pairs import pack, to_complex

DECAY_MIN, DECAY_MAX = 1e-3, 2.0
FREQUENCY_MAX = math.pi
# Below this |lambda h| the gain (p - 1) / lambda is replaced by its limit h.
SMALL_STEP = 1e-6


class Hold(NamedTuple):
    """What a zero-order hold does over some steps: the state times `transition`, plus the drive times `gain`."""

    transition: Tensor
    gain: Tensor


def decay_of(raw: Tensor) -> Tensor:
    """The decay rates alpha of raw parameters, in their precision."""
    return DECAY_MIN + (DECAY_MAX - DECAY_MIN) * torch.sigmoid(raw)


def frequency_of(raw: Tensor) -> Tensor:
    """The angular frequencies omega of raw parameters, in their precision."""
    return FREQUENCY_MAX * torch.tanh(raw)


class Poles(nn.Module):
    """M poles `lambda = -decay + i frequency`, decay in (1e-3, 2), |frequency| < pi.

    Trained poles start on the paper's grid; fixed poles are drawn uniformly over the range of that grid and stay.
    """

    raw_decay: Tensor
    raw_frequency: Tensor

    def __init__(self, modes: int, *, trainable: bool = True) -> None:
        super().__init__()
        if trainable:
            self.raw_decay = nn.Parameter(torch.linspace(-3.0, 1.0, modes))
            self.raw_frequency = nn.Parameter(torch.linspace(0.0, 0.75, modes).atanh())
        else:
            self.register_buffer("raw_decay", torch.empty(modes).uniform_(-3.0, 1.0))
            self.register_buffer("raw_frequency", torch.empty(modes).uniform_(0.0, 0.75).atanh())

    @property
    def decay(self) -> Tensor:
        """The decay rates alpha, (M,)."""
        return decay_of(self.raw_decay)

    @property
    def frequency(self) -> Tensor:
        """The angular frequencies omega, (M,)."""
        return frequency_of(self.raw_frequency)

    def values(self) -> Tensor:
        """The complex poles lambda, (M,), for analysis and plots."""
        return torch.complex(-self.decay, self.frequency)

    def hold(self, elapsed: Tensor) -> Hold:
        """The transition and gain over elapsed time (...,), packed (..., 2M) each."""
        return zero_order_hold(self.decay, self.frequency, elapsed)


def zero_order_hold(decay: Tensor, frequency: Tensor, elapsed: Tensor) -> Hold:
    """The transition p = exp(lambda h) and gain (p - 1) / lambda, packed, of poles (M,) over elapsed time h (...,).

    p - 1 is assembled from expm1 and a squared half-angle sine, so nothing cancels for short steps.
    """
    h = elapsed.unsqueeze(-1)
    radius, turn = torch.exp(-decay * h), frequency * h
    cosine, sine, half_sine = torch.cos(turn), torch.sin(turn), torch.sin(0.5 * turn)
    transition = pack(radius * cosine, radius * sine)
    change_re = torch.expm1(-decay * h) * cosine - 2.0 * half_sine * half_sine
    change_im = radius * sine

    squared = decay * decay + frequency * frequency
    small = squared * h * h < SMALL_STEP**2
    # (p - 1) / lambda = (p - 1) * conj(lambda) / |lambda|^2
    gain_re = torch.where(small, h, (change_im * frequency - change_re * decay) / squared)
    gain_im = torch.where(small, 0.0, -(change_re * frequency + change_im * decay) / squared)
    return Hold(transition, pack(gain_re, gain_im))


def hold_complex(pole: Tensor, elapsed: Tensor) -> Hold:
    """The transition and gain of complex poles (M,), as complex tensors (..., M)."""
    transition, gain = zero_order_hold(-pole.real, pole.imag, elapsed)
    return Hold(to_complex(transition), to_complex(gain))
