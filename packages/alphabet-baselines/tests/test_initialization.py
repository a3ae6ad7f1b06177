"""Families start where their papers start them."""

import numpy as np
import pytest
import torch
from alphabet_baselines import build
from alphabet_baselines.lru import RADIUS_MAX, RADIUS_MIN, LRUMixer
from alphabet_baselines.mamba import MambaMixer
from alphabet_baselines.s4d import S4DMixer
from alphabet_baselines.s5 import S5Mixer, diagonalize_hippo
from alphabet_baselines.steps import STEP_MAX, STEP_MIN
from scipy.linalg import expm
from torch.nn import functional as F


def test_s4d_starts_linear():
    mixer = S4DMixer(6, 16, "fft")
    np.testing.assert_allclose(torch.exp(mixer.log_decay).detach(), 0.5, rtol=1e-6)
    np.testing.assert_allclose(mixer.frequency.detach(), np.tile(np.pi * np.arange(8), (6, 1)), rtol=1e-6)
    step = mixer.log_step.detach().exp()
    assert float(step.min()) >= 0.999 * STEP_MIN
    assert float(step.max()) <= 1.001 * STEP_MAX


@pytest.mark.parametrize("state", [2, 16, 32])
def test_s5_starts_with_the_eigenvalues_of_the_normal_hippo_matrix(state):
    n = np.arange(state)
    hippo = -np.sqrt(np.outer(2 * n + 1, 2 * n + 1))
    hippo = np.tril(hippo, -1) - np.diag(n + 1.0)  # LegS
    rank_one = np.sqrt(n + 0.5)
    normal = hippo + np.outer(rank_one, rank_one)
    poles, basis = diagonalize_hippo(state)
    np.testing.assert_allclose(normal @ basis.numpy(), basis.numpy() * poles.numpy(), atol=2e-4)
    assert bool((poles.imag > 0).all())
    np.testing.assert_allclose((basis.mH @ basis).numpy(), np.eye(state // 2), atol=1e-5)


def test_the_hold_of_s5_is_the_matrix_exponential():
    mixer = S5Mixer(3, 8, "sequential").double().requires_grad_(False)
    transition, to_modes, _ = mixer.discretize()
    for mode in range(4):
        pole = complex(-mixer.log_decay[mode].exp(), mixer.frequency[mode])
        step = float(mixer.log_step[mode].exp())
        held = expm(np.array([[pole, 1.0], [0.0, 0.0]]) * step)
        assert complex(transition[mode], transition[4 + mode]) == pytest.approx(held[0, 0], abs=1e-12)
        gain = to_modes[mode].detach().numpy() / torch.view_as_complex(mixer.input)[mode].detach().numpy()
        np.testing.assert_allclose(gain, held[0, 1], rtol=1e-10)


def test_lru_starts_uniform_on_the_ring_with_unit_variance():
    mixer = LRUMixer(4, 4000, "fft")
    radius = torch.exp(-mixer.nu.detach().exp())
    area = (radius.square() - RADIUS_MIN**2) / (RADIUS_MAX**2 - RADIUS_MIN**2)
    np.testing.assert_allclose(np.quantile(area, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.04)
    phase = mixer.theta.detach().exp()
    np.testing.assert_allclose(np.quantile(phase / (2 * np.pi), [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.04)
    stationary = mixer.log_gamma.detach().exp().square() / (1.0 - radius.square())
    np.testing.assert_allclose(stationary, 1.0, rtol=1e-2)


def test_mamba_starts_with_steps_in_range_and_real_decay_rates():
    mixer = MambaMixer(48, 16, 4)
    assert mixer.dt_proj.in_features == 3  # ceil(48 / 16)
    assert mixer.out_proj.in_features == 96  # expansion by two
    step = F.softplus(mixer.dt_proj.bias.detach())
    assert float(step.min()) >= 0.99 * STEP_MIN
    assert float(step.max()) <= 1.01 * STEP_MAX
    np.testing.assert_allclose(-torch.exp(mixer.A_log.detach())[5], -np.arange(1.0, 17.0), rtol=1e-6)
    assert float(mixer.dt_proj.weight.detach().abs().max()) <= 3**-0.5
    assert bool((mixer.D == 1).all())


@pytest.mark.parametrize("family", ["s4d", "s5", "lru"])
def test_no_recurrence_can_explode_whatever_is_learned(family):
    torch.manual_seed(0)
    model = build(family, channels=1, outputs=2, width=4, choice=(1, 16))
    with torch.no_grad():
        for parameter in model.backbone.blocks[0].mixer.parameters():
            parameter += 2.0 * torch.randn_like(parameter)
    transition = model.backbone.blocks[0].mixer.discretize()[0]
    half = transition.shape[-1] // 2
    modulus = torch.hypot(transition[..., :half], transition[..., half:])
    assert float(modulus.max().detach()) <= 1.0
