import alphabet_core.scan as scan
import pytest
import torch
from alphabet_core import SCANS, scan_sequential
from alphabet_core.pairs import from_complex, multiply, to_complex
from alphabet_core.scan import CHUNK
from alphabet_testing.gradients import assert_gradients_are_derivatives
from hypothesis import given
from hypothesis import strategies as st

FAST = {name: scan for name, scan in SCANS.items() if name != "sequential"}


def draw(seed, batch, length, modes, *, varying, radius=0.999):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, length, modes) if varying else (modes,)
    size = radius * torch.rand(shape, generator=generator, dtype=torch.float64)
    angle = 6.3 * torch.rand(shape, generator=generator, dtype=torch.float64)
    transition = from_complex(torch.polar(size, angle))
    drive = torch.randn(batch, length, 2 * modes, generator=generator, dtype=torch.float64)
    initial = torch.randn(batch, 2 * modes, generator=generator, dtype=torch.float64)
    return transition, drive, initial


def complex_loop(transition, drive, initial):
    """The recurrence in complex numbers, nothing shared with the package."""
    p, e = to_complex(transition), to_complex(drive)
    z, states = to_complex(initial), []
    for t in range(e.shape[1]):
        z = (p if p.ndim == 1 else p[:, t]) * z + e[:, t]
        states.append(z)
    return from_complex(torch.stack(states, dim=1))


lengths = st.one_of(st.integers(1, 12), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5, 150]))


@pytest.mark.parametrize("name", SCANS)
@given(seed=st.integers(0, 2**20), length=lengths, modes=st.integers(1, 4), varying=st.booleans())
def test_every_scan_is_the_complex_recurrence(name, seed, length, modes, varying):
    transition, drive, initial = draw(seed, 2, length, modes, varying=varying)
    expected = complex_loop(transition, drive, initial)
    torch.testing.assert_close(SCANS[name](transition, drive, initial), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", SCANS)
@given(seed=st.integers(0, 2**20), length=lengths, varying=st.booleans())
def test_a_missing_initial_state_is_zero(name, seed, length, varying):
    transition, drive, initial = draw(seed, 2, length, 2, varying=varying)
    explicit = SCANS[name](transition, drive, torch.zeros_like(initial))
    torch.testing.assert_close(SCANS[name](transition, drive, None), explicit, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", SCANS)
@given(seed=st.integers(0, 2**20), length=st.integers(2, 80), cut=st.floats(0.01, 0.99), varying=st.booleans())
def test_a_scan_can_stop_and_go_on(name, seed, length, cut, varying):
    transition, drive, initial = draw(seed, 2, length, 2, varying=varying)
    at = min(length - 1, max(1, int(cut * length)))
    first, second = (transition, transition) if not varying else (transition[:, :at], transition[:, at:])
    head = SCANS[name](first, drive[:, :at], initial)
    tail = SCANS[name](second, drive[:, at:], head[:, -1])
    whole = SCANS[name](transition, drive, initial)
    torch.testing.assert_close(torch.cat((head, tail), dim=1), whole, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", SCANS)
@given(seed=st.integers(0, 2**20), length=st.integers(1, 70), varying=st.booleans(), scale=st.floats(-3, 3))
def test_states_are_linear_in_the_drive(name, seed, length, varying, scale):
    transition, drive, initial = draw(seed, 1, length, 2, varying=varying)
    other = torch.randn_like(drive)
    together = SCANS[name](transition, drive + scale * other, initial)
    apart = SCANS[name](transition, drive, initial) + scale * SCANS[name](transition, other, None)
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("length", [1, 5, CHUNK + 2])
def test_gradients_of_every_argument_are_right(name, varying, length):
    assert_gradients_are_derivatives(SCANS[name], draw(3, 1, length, 1, varying=varying, radius=0.9))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("varying", [False, True])
def test_second_derivatives_exist(name, varying):
    arguments = [t.requires_grad_() for t in draw(4, 1, 4, 1, varying=varying, radius=0.9)]
    assert torch.autograd.gradgradcheck(SCANS[name], arguments)


@pytest.mark.parametrize("name", FAST)
def test_float32_is_as_good_as_the_sequential_float32(name):
    # A pole on the slow edge: |p| = 0.999 over 2,048 tokens, where errors accumulate longest.
    transition, drive, initial = draw(5, 4, 2048, 8, varying=False)
    transition = from_complex(
        torch.polar(torch.full((8,), 0.999, dtype=torch.float64), torch.linspace(0.0, 3.1, 8, dtype=torch.float64))
    )
    transition = transition.float()
    exact = scan_sequential(transition.double(), drive, initial)
    single = (transition, drive.float(), initial.float())
    plain = (scan_sequential(*single) - exact).abs().max()
    fast = (SCANS[name](*single) - exact).abs().max()
    assert fast <= 2.0 * plain  # never more than twice as wrong as the loop in the same precision


@given(a=st.complex_numbers(max_magnitude=1e6), b=st.complex_numbers(max_magnitude=1e6))
def test_packed_product_is_the_complex_product(a, b):
    packed = multiply(*(torch.tensor([z.real, z.imag], dtype=torch.float64) for z in (a, b)))
    assert complex(*packed.tolist()) == pytest.approx(a * b, rel=1e-12, abs=1e-12 * abs(a) * abs(b))


@pytest.mark.parametrize("name", FAST)
def test_a_planted_fault_in_the_carry_is_seen(name, monkeypatch):
    _, drive, initial = draw(6, 1, 8 * CHUNK, 2, varying=False)
    slow = torch.full((2,), 0.999, dtype=torch.float64)
    transition = from_complex(torch.polar(slow, slow))
    doubling = scan._doubling
    monkeypatch.setattr(scan, "_doubling", lambda t, states, levels, *rest: doubling(t, states, levels - 1, *rest))
    assert not torch.allclose(
        SCANS[name](transition, drive, initial), complex_loop(transition, drive, initial), atol=1e-6
    )


@pytest.mark.parametrize("varying", [False, True], ids=["static", "varying"])
@pytest.mark.parametrize("name", SCANS)
def test_real_recurrences_are_the_same_code_with_the_real_product(name, varying):
    drive, initial = torch.randn(2, 3 * CHUNK + 5, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    transition = torch.rand(drive.shape if varying else (3,), dtype=torch.float64)
    state, expected = initial, []
    for t in range(drive.shape[1]):
        state = (transition[:, t] if varying else transition) * state + drive[:, t]
        expected.append(state)
    states = SCANS[name](transition, drive, initial, product=torch.mul)
    torch.testing.assert_close(states, torch.stack(expected, dim=1), rtol=1e-12, atol=1e-12)
