import cmath
import math

import pytest
import torch
from alphabet_core.pairs import to_complex
from alphabet_core.poles import Poles, hold_complex, zero_order_hold
from hypothesis import given
from hypothesis import strategies as st

decays = st.floats(1e-3, 2.0)
frequencies = st.floats(-math.pi, math.pi)
steps = st.floats(0.0, 50.0)


def held(decay, frequency, h):
    transition, gain = zero_order_hold(
        *(torch.tensor([v], dtype=torch.float64) for v in (decay, frequency)), torch.tensor(h, dtype=torch.float64)
    )
    return complex(to_complex(transition)), complex(to_complex(gain))


def exact_gain(pole, h):
    """(exp(pole h) - 1) / pole by its power series where the quotient cancels."""
    x = pole * h
    if abs(x) > 0.5:
        return (cmath.exp(x) - 1.0) / pole
    return h * sum(x**k / math.factorial(k + 1) for k in range(25))


@given(decays, frequencies, steps)
def test_hold_is_the_exact_exponential_and_its_integral(decay, frequency, h):
    transition, gain = held(decay, frequency, h)
    pole = complex(-decay, frequency)
    assert abs(transition - cmath.exp(pole * h)) <= 1e-13
    # Below |lambda h| = 1e-6 the gain is h by definition, at most half of 1e-6 off, relatively.
    allowed = 0.51e-6 * h if abs(pole * h) < 1e-6 else 1e-12 * abs(exact_gain(pole, h)) + 1e-300
    assert abs(gain - exact_gain(pole, h)) <= allowed


@given(decays, frequencies, st.floats(1e-9, 1e-2))
def test_short_steps_do_not_cancel(decay, frequency, h):
    _, gain = held(decay, frequency, h)
    pole = complex(-decay, frequency)
    assert abs(gain - exact_gain(pole, h)) <= 0.51e-6 * h
    if abs(pole * h) >= 1e-6:
        assert abs(gain - exact_gain(pole, h)) <= 1e-13 * h


@given(decays, frequencies, steps)
def test_a_step_of_positive_length_contracts(decay, frequency, h):
    transition, gain = held(decay, frequency, h)
    assert abs(transition) <= math.exp(-decay * h) * (1 + 1e-12)
    assert abs(gain) <= -math.expm1(-decay * h) / decay * (1 + 1e-6) + 1e-300


@given(decays, frequencies)
def test_a_step_of_no_length_changes_nothing(decay, frequency):
    assert held(decay, frequency, 0.0) == (1.0, 0.0)


@given(decays, frequencies, steps, steps, st.complex_numbers(max_magnitude=10), st.complex_numbers(max_magnitude=10))
def test_interval_update_is_a_semigroup(decay, frequency, first, second, z, e):
    def update(h, state):
        transition, gain = held(decay, frequency, h)
        return transition * state + gain * e

    # The short-step substitution of the gain is the only departure, 0.5e-6 relative to a step.
    slack = 1e-11 * (1 + abs(z) + abs(e) / decay) + 1e-6 * abs(e) * 1e-6 / decay
    assert abs(update(second, update(first, z)) - update(first + second, z)) <= slack


def test_poles_start_on_the_papers_grid():
    poles = Poles(16)
    torch.testing.assert_close(poles.raw_decay.detach(), torch.linspace(-3, 1, 16))
    torch.testing.assert_close(torch.tanh(poles.raw_frequency.detach()), torch.linspace(0, 0.75, 16))


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=6))
def test_any_raw_value_is_a_stable_pole(raw):
    poles = Poles(len(raw))
    with torch.no_grad():
        poles.raw_decay.copy_(torch.tensor(raw))
        poles.raw_frequency.copy_(torch.tensor(raw[::-1]))
    values = poles.values().detach()
    assert bool((values.real <= -1e-3).all())
    assert bool((values.real >= -2.0).all())
    assert bool((values.imag.abs() <= torch.tensor(math.pi)).all())


def test_gradients_of_the_hold_are_right_on_both_sides_of_the_short_step():
    decay = torch.tensor([0.3, 1.2], dtype=torch.float64, requires_grad=True)
    frequency = torch.tensor([0.0, -2.0], dtype=torch.float64, requires_grad=True)
    for h in (1.0, 1e-3, 7.0):
        elapsed = torch.tensor([h], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(zero_order_hold, (decay, frequency, elapsed))


@pytest.mark.parametrize("h", [0.0, 1e-9])
def test_gradients_at_a_step_of_no_length_are_finite(h):
    poles = Poles(4)
    elapsed = torch.tensor([h], requires_grad=True)
    transition, gain = poles.hold(elapsed)
    (transition.sum() + gain.sum()).backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in (*poles.parameters(), elapsed))


def test_complex_and_packed_hold_are_the_same():
    poles = Poles(5).double()
    step = torch.tensor(0.7, dtype=torch.float64)
    packed = poles.hold(step)
    for one, other in zip(packed, hold_complex(poles.values(), step), strict=True):
        torch.testing.assert_close(to_complex(one), other)
