import math

import pytest
import torch
from alphabet_core import AlphabetError, ar_spectrum, frequency_response, ma_spectrum, noise_floor, population_moments
from alphabet_core.pairs import from_complex, to_complex
from alphabet_core.poles import hold_complex
from alphabet_core.scan import scan_chunked
from alphabet_core.spectra import poisson_kernel
from hypothesis import given
from hypothesis import strategies as st

poles = st.builds(complex, st.floats(-2.0, -0.02), st.floats(-3.1, 3.1))
held_steps = st.sampled_from([0.5, 1.0, 2.0])
LAGS = (0, 1, 2, 4)


def hold(pole, step=1.0):
    transition, gain = hold_complex(
        torch.tensor([pole], dtype=torch.complex128), torch.tensor(step, dtype=torch.float64)
    )
    return complex(transition), complex(gain)


@given(poles, held_steps, st.floats(0.1, 4.0))
def test_white_noise_moments_have_a_closed_form(pole, step, variance):
    p, gain = hold(pole, step)
    energy = variance * abs(gain) ** 2 / (1 - abs(p) ** 2)
    got = population_moments(ma_spectrum([1.0], variance), pole, LAGS, step=step)
    expected = torch.tensor([energy * p**lag for lag in LAGS], dtype=torch.complex128)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=1e-8 * energy)


@given(poles, st.floats(-0.9, 0.9))
def test_ar1_energy_has_a_closed_form(pole, phi):
    # E|z|^2 = |gain|^2 sum_{j,k} p^j conj(p)^k phi^|j-k| / (1 - phi^2)
    p, gain = hold(pole)
    cross = (1 / (1 - p * phi)).real * 2 - 1
    energy = abs(gain) ** 2 / (1 - abs(p) ** 2) * cross / (1 - phi**2)
    got = population_moments(ar_spectrum([phi]), pole, (0,))
    assert float(got.real) == pytest.approx(energy, rel=1e-8)


@given(poles, st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_mode_energy_is_a_poisson_localized_spectral_mass(pole, coefficients):
    p, gain = hold(pole)
    spectrum = ma_spectrum([1.0, *coefficients])
    theta = torch.arange(2**15, dtype=torch.float64) * (2 * math.pi / 2**15)
    mass = float((poisson_kernel(p, theta) * spectrum(theta)).mean() * 2 * math.pi)
    energy = float(population_moments(spectrum, pole, (0,)).real)
    assert (1 - abs(p) ** 2) / abs(gain) ** 2 * energy == pytest.approx(mass, rel=1e-7)


@given(poles, held_steps, st.floats(0.01, 3), st.lists(st.floats(-1, 1), min_size=1, max_size=3))
def test_white_noise_adds_a_floor_and_contaminates_the_lags(pole, step, variance, coefficients):
    p, _ = hold(pole, step)
    signal, noise = ma_spectrum([1.0, *coefficients]), ma_spectrum([1.0], 2 * variance)  # ||c||^2 = 2 directions' worth
    together = population_moments(lambda theta: signal(theta) + noise(theta), pole, LAGS, step=step)
    alone = population_moments(signal, pole, LAGS, step=step)
    floor = float(noise_floor(pole, variance, step=step))
    assert floor > 0
    expected = alone + floor * torch.tensor([p**lag for lag in LAGS], dtype=torch.complex128)
    torch.testing.assert_close(together, expected, rtol=1e-7, atol=1e-8 * float(together[0].abs()))


@given(poles, st.floats(-3.1, 3.1))
def test_frequency_response_is_the_transform_of_the_impulse_response(pole, theta):
    p, gain = hold(pole)
    terms = math.ceil(40 / -math.log(abs(p)))
    powers = torch.arange(terms, dtype=torch.float64)
    impulse = gain * torch.exp(powers * complex(math.log(abs(p)), math.atan2(p.imag, p.real)))
    direct = (impulse * torch.exp(-1j * theta * powers)).sum()
    got = frequency_response(pole, torch.tensor([theta], dtype=torch.float64))
    torch.testing.assert_close(got[0], direct, rtol=1e-8, atol=1e-8)


@given(poles, st.floats(0.1, 10))
def test_moments_scale_with_the_power_of_the_signal(pole, scale):
    one = population_moments(ma_spectrum([1.0, 0.5]), pole, LAGS)
    other = population_moments(ma_spectrum([1.0, 0.5], scale**2), pole, LAGS)
    torch.testing.assert_close(other, scale**2 * one, rtol=1e-9, atol=0)


@given(poles, st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_no_lag_moment_exceeds_the_energy(pole, coefficients):
    moments = population_moments(ma_spectrum([1.0, *coefficients]), pole, (0, 1, 2, 4, 9))
    assert bool((moments.abs() <= moments[0].real * (1 + 1e-9)).all())


@pytest.mark.parametrize("spectrum", ["ma", "ar"])
@pytest.mark.parametrize("pole", [complex(-0.2, 0.0), complex(-0.4, 1.5), complex(-1.0, -2.5)])
def test_long_simulations_approach_the_population(spectrum, pole):
    length, batch, warm = 20_000, 16, 400
    noise = torch.randn(batch, length + 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    if spectrum == "ma":
        path, density = noise[:, 2:] + 0.7 * noise[:, :-2], ma_spectrum([1.0, 0.0, 0.7])
    else:
        phi = torch.tensor([0.6, 0.0], dtype=torch.float64)
        path = scan_chunked(phi, torch.stack((noise, torch.zeros_like(noise)), dim=-1))[..., 0]
        density = ar_spectrum([0.6])
    p, gain = hold(pole)
    drive = from_complex((gain * path).unsqueeze(-1).to(torch.complex128))
    states = to_complex(scan_chunked(from_complex(torch.tensor([p])), drive))[:, warm:, 0]
    expected = population_moments(density, pole, LAGS)
    for k, lag in enumerate(LAGS):
        estimates = (states[:, lag:] * states[:, : states.shape[1] - lag].conj()).mean(dim=1)
        # Five standard errors of the mean of the 16 independent paths.
        allowed = 5 * float(torch.view_as_real(estimates).std(dim=0).norm()) / math.sqrt(batch)
        assert abs(complex(estimates.mean() - expected[k])) <= allowed


def test_matched_classes_agree_up_to_lag_four_and_differ_at_five():
    eps = 0.4
    total, difference = math.sqrt(1 + eps), math.sqrt(1 - eps)
    a, b = (total + difference) / 2, (total - difference) / 2
    theta = torch.arange(4096, dtype=torch.float64) * (2 * math.pi / 4096)
    density = ma_spectrum([a, 0, 0, 0, 0, b])(theta)
    covariance = [float((density * torch.cos(k * theta)).mean() * 2 * math.pi) for k in range(7)]
    assert covariance == pytest.approx([1, 0, 0, 0, 0, eps / 2, 0], abs=1e-12)
    pole = complex(-0.1, 2 * math.pi / 5)
    white, colored = (population_moments(s, pole, (0,)) for s in (ma_spectrum([1.0]), ma_spectrum([a, 0, 0, 0, 0, b])))
    assert float(colored.real) > 1.2 * float(white.real)  # yet one narrow mode tells them apart


def test_mistakes_are_named():
    with pytest.raises(AlphabetError, match="negative real part"):
        population_moments(ma_spectrum([1.0]), complex(0.1, 1.0))
    with pytest.raises(AlphabetError, match="step"):
        frequency_response(complex(-1, 0), torch.zeros(1), step=0.0)


@pytest.mark.slow
def test_a_spectrum_that_no_grid_resolves_is_named():
    with pytest.raises(AlphabetError, match="spectrum"):
        population_moments(ar_spectrum([1 - 1e-7]), complex(-0.1, 0.0))
