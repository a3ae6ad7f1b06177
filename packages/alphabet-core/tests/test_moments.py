import math

import pytest
import torch
from alphabet_core.grid import TokenGrid
from alphabet_core.moments import condition, radial_log, read_moments
from alphabet_core.pairs import from_complex, to_complex
from hypothesis import assume, given
from hypothesis import strategies as st

finite = st.floats(-1e6, 1e6)
moments = st.tuples(st.floats(0, 1e6), st.complex_numbers(max_magnitude=1e6), st.complex_numbers(max_magnitude=1e6))


def as_moments(energy, *lags):
    return from_complex(torch.tensor([[[complex(energy)], *([lag] for lag in lags)]], dtype=torch.complex128))


def conditioned(moment):
    return condition(as_moments(*moment)).flatten()


def flat(moment):
    energy, *lags = moment
    return torch.tensor([energy, *(part for lag in lags for part in (lag.real, lag.imag))], dtype=torch.float64)


@given(moments, moments)
def test_conditioning_is_firmly_non_expansive(r, s):
    change, given_change = conditioned(r) - conditioned(s), flat(r) - flat(s)
    inner = float(change @ given_change)
    slack = 1e-9 * (1 + float(given_change.norm()) ** 2)
    assert float(change.norm()) ** 2 <= inner + slack
    assert inner <= float(given_change.norm()) ** 2 + slack


@given(moments, moments)
def test_conditioning_is_bi_lipschitz_on_a_ball(r, s):
    radius = max(float(flat(r).norm()), float(flat(s).norm()))
    change, given_change = float((conditioned(r) - conditioned(s)).norm()), float((flat(r) - flat(s)).norm())
    assert given_change / (1 + radius) <= change + 1e-9
    assert change <= given_change + 1e-9


@given(moments, moments)
def test_conditioning_is_injective(r, s):
    assume(float((flat(r) - flat(s)).norm()) > 1e-3)
    assert not torch.equal(conditioned(r), conditioned(s))


@given(st.complex_numbers(max_magnitude=1e30))
def test_radial_log_keeps_the_phase_and_logs_the_radius(u):
    image = complex(to_complex(radial_log(torch.tensor([u.real, u.imag], dtype=torch.float64))))
    assert abs(image) == pytest.approx(math.log1p(abs(u)), rel=1e-9, abs=1e-15)
    if abs(u) > 1e-12:
        assert abs(image / abs(image) - u / abs(u)) < 1e-9


@given(st.floats(0.01, 100), st.complex_numbers(min_magnitude=1e-3, max_magnitude=1e3))
def test_a_global_scale_leaves_the_phase_of_a_moment(scale, u):
    images = [
        complex(to_complex(radial_log(torch.tensor([v.real, v.imag], dtype=torch.float64)))) for v in (u, scale**2 * u)
    ]
    assert images[0] / abs(images[0]) == pytest.approx(images[1] / abs(images[1]), abs=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-40, 1e-22, 1e-10])
def test_radial_log_near_zero_is_the_identity_with_finite_gradients(dtype, size):
    u = torch.tensor([size, -size], dtype=dtype, requires_grad=True)
    value = radial_log(u)
    torch.testing.assert_close(value, u, rtol=1e-6, atol=0)
    jacobian = torch.stack([torch.autograd.grad(value[i], u, retain_graph=True)[0] for i in range(2)])
    torch.testing.assert_close(jacobian, torch.eye(2, dtype=dtype), rtol=0, atol=1e-5)


def test_gradient_of_the_conditioning_is_right():
    raw = as_moments(0.7, 0.3 - 0.2j, -1.5 + 4j)
    assert torch.autograd.gradcheck(condition, raw.requires_grad_())


@given(seed=st.integers(0, 2**20), length=st.integers(1, 9), masked=st.booleans())
def test_moments_are_the_definition(seed, length, masked):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(2, length, 3, generator=generator, dtype=torch.complex128)
    w = torch.rand(2, length, generator=generator) > 0.4 if masked else torch.ones(2, length, dtype=torch.bool)
    lags = (1, 2, 4)
    got = to_complex(read_moments(from_complex(z), TokenGrid(z.real, w if masked else None), lags))
    for b in range(2):
        for k, lag in enumerate((0, *lags)):
            pairs = [z[b, t] * z[b, t - lag].conj() for t in range(lag, length) if w[b, t] and w[b, t - lag]]
            expected = sum(pairs, torch.zeros(3, dtype=torch.complex128)) / max(1, len(pairs))
            torch.testing.assert_close(got[b, k], expected, rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 2**20), length=st.integers(1, 4))
def test_a_lag_without_a_pair_gives_zero(seed, length):
    z = torch.randn(1, length, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    moment = read_moments(z, TokenGrid(z, None), (4,))
    assert moment[:, 1].count_nonzero() == 0


@given(seed=st.integers(0, 2**20), length=st.integers(1, 30))
def test_energy_is_real_and_no_lag_exceeds_the_largest_state(seed, length):
    z = torch.randn(1, length, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    moment = to_complex(read_moments(z, TokenGrid(z, None), (1, 2, 4)))
    assert bool((moment[:, 0].imag == 0).all())
    largest = to_complex(z).abs().square().amax(dim=1)
    assert bool((moment.abs() <= largest.unsqueeze(1) + 1e-12).all())


def test_descriptor_coordinates_of_one_pole_are_contiguous():
    raw = from_complex(torch.arange(8, dtype=torch.float64).reshape(1, 4, 2) * (1 + 2j))
    block = condition(raw)
    assert block.shape == (1, 2, 7)
    mode = raw[0, :, [0, 2]]  # real and imaginary part of mode 0
    expected = torch.cat((mode[:1, 0].log1p(), radial_log(mode[1:]).flatten()))
    torch.testing.assert_close(block[0, 0], expected)
