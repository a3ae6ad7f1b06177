"""Poles and their hold in pairs of float32, executed as PTX, against complex128."""

import math
import os

import pytest
import torch
from alphabet_core.fused import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX
from alphabet_testing.kernels.device import PtxDevice
from alphabet_triton.launching import on
from alphabet_triton.ops.fold.launch import Foldable, launch_fold

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

D, M = 16, 60
# The slowest and fastest decays, no frequency and the highest, and whatever float32 makes of infinity.
DECAYS = [-100.0, -200.0, 90.0, 0.0, -3.0, 1.0, -8.0, -12.0, 1e-6, -1e-6, -math.inf, math.inf]
FREQUENCIES = [0.0, 1e-8, 50.0, -50.0, 0.0, 0.5493, 1e-3, -1e-3, 0.0, 0.3, 0.2, math.inf]


def make_poles():
    generator = torch.Generator().manual_seed(0)
    spread = torch.logspace(-4.0, 0.5, M - len(DECAYS))
    decay, frequency = (torch.randn(M - len(DECAYS), generator=generator) for _ in range(2))
    return torch.cat([torch.tensor(DECAYS), 4.0 * decay]), torch.cat([torch.tensor(FREQUENCIES), spread * frequency])


def far(found, exact):
    """The largest relative difference of complex numbers whose two parts lie one after the other."""
    found = torch.complex(*found.double().view(2, M))
    return float(((found - exact).abs() / exact.abs().clamp(min=2.0**-100)).max())


def test_poles_are_as_good_as_rounded_from_float64():
    raw_decay, raw_frequency = make_poles()
    banks = 2 * [torch.zeros(D, 2 * M), raw_decay, raw_frequency, torch.zeros(D)]
    device = PtxDevice()
    with on(device):
        factors = launch_fold(Foldable(*banks, torch.zeros(D), torch.zeros(D)))
    sigma, tanh = raw_decay.double().sigmoid(), raw_frequency.double().tanh()
    pole = torch.complex(-(DECAY_MIN + (DECAY_MAX - DECAY_MIN) * sigma), FREQUENCY_MAX * tanh)
    transition = pole.exp()
    gain = (transition - 1.0) / pole
    derivative = (transition - gain) / pole
    # Rounding both parts of a complex number is at most 2^-24 of it; derivatives are computed in float32.
    for bank, found in enumerate((factors.transition, factors.transition_2)):
        stored = factors.poles[bank]
        # A power is as many times as wrong as the pole's pairs, some 2^-32: far less than what rounding it is.
        for i, power in enumerate(found.mT.contiguous()):
            assert far(power, transition ** (1 << i)) < (1.0 + (1 << i) * 2.0**-8) * 2**-24, i
        assert far(stored[:2].flatten(), gain) < 1.0 * 2**-24
        assert far(stored[2:4].flatten(), derivative) < 8.0 * 2**-24
        slopes = (DECAY_MAX - DECAY_MIN) * sigma * (1.0 - sigma), FREQUENCY_MAX * (1.0 - tanh * tanh)
        for slope, exact in zip(stored[4:], slopes, strict=True):
            assert float((slope - exact).abs().max()) < 4.0 * 2**-24 * float(exact.max())
    assert device.races == []
