"""The compiled recurrences of S4D, S5 and LRU: a plain loop's outputs and gradients, whatever sizes and threads."""

import math

import numpy as np
import pytest
import torch
from alphabet_baselines import compiling, diagonal_cpu, diagonal_kernels
from alphabet_baselines.diagonal_cpu import CompiledChannels, CompiledModes
from alphabet_baselines.diagonal_kernels import BLOCK
from alphabet_core import AlphabetError
from alphabet_testing.family_kernels import bits_by_threads, differentiate, plant, worst_difference
from hypothesis import given, settings
from hypothesis import strategies as st

FUNCTIONS = {"modes": CompiledModes.apply, "channels": CompiledChannels.apply}


def modes_by_definition(transition, drive):
    """z[t] = transition z[t-1] + drive[t], one token after another, real and imaginary parts written out."""
    (a_re, a_im), (d_re, d_im) = transition.chunk(2), drive.chunk(2, dim=-1)
    re, im, states = torch.zeros_like(d_re[:, 0]), torch.zeros_like(d_re[:, 0]), []
    for t in range(drive.shape[1]):
        re, im = a_re * re - a_im * im + d_re[:, t], a_re * im + a_im * re + d_im[:, t]
        states.append(torch.cat((re, im), dim=-1))
    return torch.stack(states, dim=1)


def channels_by_definition(inputs, transition, weight):
    """y[t] = sum over modes of Re(weight z[t]), z[t] = transition z[t-1] + u[t], in every channel."""
    (a_re, a_im), (w_re, w_im) = transition.chunk(2, dim=1), weight.chunk(2, dim=1)
    re, im, outputs = inputs.new_zeros(len(inputs), *a_re.shape), inputs.new_zeros(len(inputs), *a_re.shape), []
    for t in range(inputs.shape[1]):
        re, im = a_re * re - a_im * im + inputs[:, t].unsqueeze(-1), a_re * im + a_im * re
        outputs.append((w_re * re - w_im * im).sum(dim=-1))
    return torch.stack(outputs, dim=1)


DEFINITIONS = {"modes": modes_by_definition, "channels": channels_by_definition}


def draw_stable(*shape, generator):
    """Packed transitions within the unit circle, the last axis twice as long."""
    radius, phase = torch.rand(2, *shape, dtype=torch.float64, generator=generator).unbind()
    return torch.cat((radius * (6.0 * phase).cos(), radius * (6.0 * phase).sin()), dim=-1)


def draw(name, sequences=3, length=11, width=5, modes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if name == "modes":
        drive = torch.randn(sequences, length, 2 * modes, dtype=torch.float64, generator=generator)
        return [draw_stable(modes, generator=generator), drive]
    inputs = torch.randn(sequences, length, width, dtype=torch.float64, generator=generator)
    weight = torch.randn(width, 2 * modes, dtype=torch.float64, generator=generator)
    return [inputs, draw_stable(width, modes, generator=generator), weight]


def to_single(name, arguments):
    """The arguments as a model in float32 has them: S4D keeps its transition in float64."""
    return [x if name == "channels" and i == 1 else x.float() for i, x in enumerate(arguments)]


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(FUNCTIONS)),
    sequences=st.integers(1, 5),
    length=st.sampled_from([1, 2, 3, 4, 5, 16, 17, 40]),
    width=st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK]),
    modes=st.integers(1, 9),
    seed=st.integers(0, 2**16),
)
def test_outputs_and_gradients_equal_the_loop(name, sequences, length, width, modes, seed):
    arguments = draw(name, sequences, length, width, modes, seed)
    expected = differentiate(DEFINITIONS[name], arguments)
    assert worst_difference(differentiate(FUNCTIONS[name], arguments), expected) < 1e-12
    single = to_single(name, arguments)
    rounded = differentiate(DEFINITIONS[name], [x.double() for x in single])  # of the very numbers that are read
    # Each number is rounded once to float32; S5 and LRU read the rounded states again in the gradient of a transition.
    assert worst_difference(differentiate(FUNCTIONS[name], single), rounded) < 4e-7


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_finite_differences(name):
    arguments = [argument.requires_grad_() for argument in draw(name, 2, 5, 3, 2)]
    assert torch.autograd.gradcheck(FUNCTIONS[name], arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_token_gives_its_transition_a_gradient_of_zeros(name):
    arguments = draw(name, length=1)
    gradient = differentiate(FUNCTIONS[name], arguments)[1 if name == "modes" else 2]
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sequence_does_not_depend_on_its_batch(name):
    arguments, per_batch = draw(name, 5, 9, 70), 1 if name == "modes" else 0
    together = FUNCTIONS[name](*arguments)
    for b in range(5):
        alone = [x[b : b + 1] if i == per_batch else x for i, x in enumerate(arguments)]
        assert torch.equal(FUNCTIONS[name](*alone), together[b : b + 1])


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_number_of_threads_gives_the_same_bits(name, single, monkeypatch):
    monkeypatch.setattr(compiling, "OPERATIONS_PER_THREAD", 1)
    arguments = draw(name, 5, 30, 70, 6)
    first, *others = bits_by_threads(FUNCTIONS[name], to_single(name, arguments) if single else arguments)
    for found in others:
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_in_other_layouts(name):
    strided = [x.mT.contiguous().mT if x.ndim > 1 else x.repeat_interleave(2)[::2] for x in draw(name)]
    expected = differentiate(DEFINITIONS[name], strided)
    assert worst_difference(differentiate(FUNCTIONS[name], strided), expected) < 1e-12
    negated = [torch.view_as_complex(torch.stack((x, -x), dim=-1)).conj().imag for x in strided]
    assert all(x.is_neg() for x in negated)
    assert torch.equal(FUNCTIONS[name](*negated), FUNCTIONS[name](*strided))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_finite_is_not_hidden(name, bad):
    for position in range(len(draw(name))):
        arguments = draw(name)
        arguments[position].view(-1)[0] = bad
        found, expected = (differentiate(each[name], arguments) for each in (FUNCTIONS, DEFINITIONS))
        for a, b in zip(found, expected, strict=True):
            assert not a.isfinite()[~b.isfinite()].any()


def test_slow_modes_keep_their_digits_over_many_tokens():
    length = 1 << 14
    angle = torch.tensor([1e-4])
    transition = (1 - 1e-6) * torch.stack((angle.cos(), angle.sin()), dim=-1).double()  # (1, 2)
    inputs, weight = torch.zeros(1, length, 1), torch.ones(1, 2)
    inputs[0, 0] = 1.0
    last = CompiledChannels.apply(inputs, transition, weight)[0, -1, 0]
    expected = torch.complex(*transition[0]) ** (length - 1) * torch.complex(*weight[0].double())
    assert abs(last.item() - expected.real.item()) < 1e-7  # a transition in float32 would be off by some 1e-4


def test_what_would_be_read_past_its_end_is_refused():
    transition, drive = draw("modes")
    with pytest.raises(AlphabetError, match=r"drive must have shape \(3, 11, 8\) .*; got \(3, 11, 6\)"):
        CompiledModes.apply(transition, drive[..., :6])
    inputs, transition, weight = draw("channels")
    with pytest.raises(AlphabetError, match=r"transition must have shape \(4, 8\) .*; got \(5, 8\)"):
        CompiledChannels.apply(inputs[..., :4], transition, weight)
    with pytest.raises(AlphabetError, match=r"weight must have .* dtype torch.float64; got .*, torch.float32"):
        CompiledChannels.apply(inputs, transition, weight.float())


FAULTS = {
    "modes": {
        "a transition that is not conjugated": (
            "g_im = transition[m] * im - transition",
            "g_im = transition[m] * im + transition",
        ),
        "the state after in place of the one before": ("states[b, t - 1, m], states", "states[b, t, m], states"),
        "states that leak from sequence to sequence": ("        state[:] = 0\n        for t", "        for t"),
        "an adjoint that leaks": ("        adjoint[:] = 0\n        for t", "        for t"),
    },
    "channels": {
        "no rotation": ("+ rows[n, IM + e] * before[n, e]", ""),
        "a dropped token of a stretch": ("for i in range(len(inputs))", "for i in range(len(inputs) - 1)"),
        "a stretch that starts from zero": ("starts[s + 1] = states[stretch]", "starts[s + 1] = 0"),
        "the state after in place of the one before": ("im * before[n, e] - re", "im * after[n, e] - re"),
        "a weight that is not conjugated": (
            "d_rows[n, WEIGHT_IM + e] -= grad[e]",
            "d_rows[n, WEIGHT_IM + e] += grad[e]",
        ),
        "one mode too few": ("for n in range(len(state))", "for n in range(len(state) - 1)"),
    },
}


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults])
def test_planted_faults_are_seen(name, fault, monkeypatch):
    planted = plant(diagonal_kernels, *FAULTS[name][fault])
    monkeypatch.setattr(np, "empty", lambda shape: np.full(shape, 3.0))  # what is not written shows
    arguments = draw(name, 2, 7, 3, 2)
    expected = differentiate(DEFINITIONS[name], arguments)
    for kernel in (f"scan_{name}", f"scan_{name}_bwd"):
        monkeypatch.setattr(diagonal_cpu, kernel, planted[kernel])
    assert worst_difference(differentiate(FUNCTIONS[name], arguments), expected) > 1e-6


def test_the_source_without_numba_is_right_where_no_fault_is_planted(monkeypatch):
    planted = plant(diagonal_kernels, "import math", "import math")
    for name in FUNCTIONS:
        arguments = draw(name, 2, 7, 3, 2)
        expected = differentiate(DEFINITIONS[name], arguments)
        for kernel in (f"scan_{name}", f"scan_{name}_bwd"):
            monkeypatch.setattr(diagonal_cpu, kernel, planted[kernel])
        assert worst_difference(differentiate(FUNCTIONS[name], arguments), expected) < 1e-12
