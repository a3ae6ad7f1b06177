"""The compiled selective scan: the definition's outputs and gradients, whatever the sizes, threads and values."""

from functools import partial

import pytest
import torch
from alphabet_baselines import compiling, selective_cpu, selective_kernels
from alphabet_baselines.selective_cpu import CompiledScan
from alphabet_baselines.selective_kernels import BLOCK
from alphabet_baselines.selective_scan import AdjointScan, selective_adjoint, selective_sequential
from alphabet_core import AlphabetError
from alphabet_testing.family_kernels import bits_by_threads, differentiate, plant, worst_difference
from alphabet_testing.timing import interleaved_ratio
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("inputs", "step", "rate", "to_state", "from_state")


def draw(sequences, length, channels, states, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(sequences, length, channels)] * 2 + [(channels, states)] + [(sequences, length, states)] * 2
    inputs, step, rate, to_state, from_state = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    return [x.to(dtype) for x in (inputs, step.abs(), -3 * rate.abs(), to_state, from_state)]


@settings(max_examples=40, deadline=None)
@given(
    sequences=st.integers(1, 5),
    length=st.integers(1, 20),
    channels=st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 150]),
    states=st.integers(1, 9),
    seed=st.integers(0, 2**16),
)
def test_outputs_and_gradients_equal_the_definition(sequences, length, channels, states, seed):
    arguments = draw(sequences, length, channels, states, seed=seed)
    expected = differentiate(selective_sequential, arguments)
    assert worst_difference(differentiate(selective_adjoint, arguments), expected) < 1e-12
    single = differentiate(selective_adjoint, [argument.float() for argument in arguments])
    assert worst_difference(single, expected) < 1e-5


def test_the_loop_for_other_devices_equals_the_definition_too():
    arguments = draw(3, 17, 6, 4)
    expected = differentiate(selective_sequential, arguments)
    assert worst_difference(differentiate(AdjointScan.apply, arguments), expected) < 1e-12


def test_a_cpu_takes_the_kernels_and_no_other_device_does(monkeypatch):
    monkeypatch.setattr(CompiledScan, "apply", lambda *arguments: "kernels")
    assert selective_adjoint(*draw(1, 2, 3, 2)) == "kernels"
    assert selective_adjoint(*(x.to("meta") for x in draw(1, 2, 3, 2))).shape == (1, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_threads_gives_the_same_bits(dtype, monkeypatch):
    monkeypatch.setattr(compiling, "OPERATIONS_PER_THREAD", 1)
    first, *others = bits_by_threads(selective_adjoint, draw(5, 30, 70, 6, dtype))
    for found in others:
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))


def test_tensors_that_are_not_contiguous():
    inputs, step, rate, to_state, from_state = draw(3, 8, 6, 4)
    strided = [inputs.mT.contiguous().mT, step, rate.t().contiguous().t(), to_state[:, ::2].repeat(1, 2, 1), from_state]
    expected = differentiate(selective_sequential, strided)
    assert worst_difference(differentiate(selective_adjoint, strided), expected) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("argument", range(5), ids=NAMES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_hidden(dtype, argument, bad):
    arguments = draw(1, 6, 3, 2, dtype)
    arguments[argument].view(-1)[0] = bad if NAMES[argument] != "rate" else float("nan")  # exp(-inf) is 0, rightly
    found, expected = (differentiate(scan, arguments) for scan in (selective_adjoint, selective_sequential))
    for a, b in zip(found, expected, strict=True):
        assert not a.isfinite()[~b.isfinite()].any()


@pytest.mark.parametrize("exponent", [0.0, -1e-6, -1.0, -20.0, -87.0, -100.0, -1e4, -3e38, 1.0, 80.0])
def test_exponentials_from_zero_to_infinity(exponent):
    step, rate = torch.full((1, 2, 1), 1.0), torch.full((1, 1), exponent)
    inputs, ones = torch.tensor([[[1.0], [0.0]]]), torch.ones(1, 2, 1)
    found = selective_adjoint(inputs, step, rate, ones, ones)[0, 1, 0]
    expected = torch.tensor(exponent, dtype=torch.float64).exp().float()
    assert torch.isclose(found, expected, rtol=1e-7 * (2 + min(abs(exponent), 128.0)), atol=1.2e-38)


def test_what_would_be_read_past_its_end_is_refused():
    inputs, step, rate, to_state, from_state = draw(3, 8, 6, 4)
    with pytest.raises(AlphabetError, match=r"to_state must have shape \(3, 8, 4\) .*; got \(2, 8, 4\)"):
        selective_adjoint(inputs, step, rate, to_state[:2], from_state)
    with pytest.raises(AlphabetError, match=r"step must have .* dtype torch.float64; got .*, torch.float32"):
        selective_adjoint(inputs, step.float(), rate, to_state, from_state)


FAULTS = {
    "a dropped reading": ("d_from[n] += total", "d_from[n] = total"),
    "no decay of the adjoint": ("adjoint[n, e] *= decay[e]", "pass"),
    "the state after in place of the one before": ("adjoint[n, e] * before[n, e]", "adjoint[n, e] * after[n, e]"),
    "a forgotten step": ("d_step[e] += d_inputs[e] * inputs[e]", "pass"),
    "one state too few": ("for n in range(from_state.size)", "for n in range(from_state.size - 1)"),
    "states that leak from block to block": ("states[0] = 0", "pass"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_seen(name, monkeypatch):
    rooms = plant(selective_kernels, *FAULTS[name])
    rooms["exponentials"] = rooms["_exponentials_float64"]
    arguments = draw(2, 5, BLOCK + 1, 2)
    expected = differentiate(selective_sequential, arguments)
    for kernel in ("scan_sequences", "scan_sequences_bwd"):
        monkeypatch.setattr(selective_cpu, kernel, rooms[kernel])
    assert worst_difference(differentiate(selective_adjoint, arguments), expected) > 1e-6


def test_training_by_the_kernels_is_faster_than_by_the_loop():
    arguments = draw(16, 100, 64, 16, torch.float32)
    slow, fast = (partial(differentiate, scan, arguments) for scan in (AdjointScan.apply, selective_adjoint))
    assert interleaved_ratio(slow, fast, rounds=5) > 1.5  # measured with AVX2: 3.8 at (32, 150, 128), 16 states
