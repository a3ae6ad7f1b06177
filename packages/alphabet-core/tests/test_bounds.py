import math

import pytest
import torch
from alphabet_core import (
    AlphabetError,
    descriptor_bound,
    drive_bound,
    logit_bound,
    perturbation_bound,
    state_bound,
    stream_bound,
)
from alphabet_core.grid import make_grid
from alphabet_core.moments import condition, read_moments
from alphabet_core.pairs import multiply, to_complex
from alphabet_core.scan import scan_chunked
from alphabet_core.sequence import Sequence, read_sequence
from alphabet_testing.models import build_model
from hypothesis import given
from hypothesis import strategies as st

seeds = st.integers(0, 2**20)
amplitudes = st.floats(-12, 12).map(lambda exponent: 10.0**exponent)
lengths = st.sampled_from([1, 2, 7, 60, 300])
SLACK = 1 + 1e-9


def draw(seed, length, amplitude):
    """A model with random gains and slow poles, and a hard input: any amplitude, masks and steps."""
    model = build_model(seed=seed % 97, outputs=4)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for bank in model.banks():
            bank.norm.gain.copy_(3 * torch.randn(8, generator=generator))
            bank.poles.raw_decay.copy_(4 * torch.randn(3, generator=generator) - 4)
    tilt = torch.randn(1, 1, 2, generator=generator, dtype=torch.float64)
    values = amplitude * (tilt + torch.randn(2, length, 2, generator=generator, dtype=torch.float64))
    steps = 10 ** (4 * torch.rand(2, length, generator=generator, dtype=torch.float64) - 2)
    valid = torch.rand(2, length, generator=generator) > 0.2
    observed = torch.rand(2, length, 2, generator=generator) > 0.2
    return model, values, {"time_delta": steps, "valid": valid, "observed": observed}


@given(seeds, lengths, amplitudes, st.booleans())
def test_descriptor_and_logits_never_exceed_their_bounds(seed, length, amplitude, irregular):
    model, values, side_inputs = draw(seed, length, amplitude)
    if not irregular:
        del side_inputs["time_delta"]
    descriptor = model.describe(values, **side_inputs).detach()
    assert float(descriptor.flatten(1).norm(dim=1).max()) <= descriptor_bound(model) * SLACK
    assert float(model(values, **side_inputs).detach().norm(dim=1).max()) <= logit_bound(model) * SLACK


@given(seeds, lengths, amplitudes)
def test_modal_states_never_exceed_theirs(seed, length, amplitude):
    model, values, side_inputs = draw(seed, length, amplitude)
    sequence = read_sequence(values, channels=2, like=model.project.weight, **side_inputs)
    elapsed = side_inputs["time_delta"].cumsum(dim=1)
    for bank, states in zip(model.banks(), model.trajectories(sequence, make_grid(sequence)), strict=True):
        modes = to_complex(states.detach()).abs()  # (B, T, M)
        decay = bank.poles.decay.detach()
        modewise = state_bound(decay, drive_bound(bank), elapsed=elapsed.unsqueeze(-1))
        whole = state_bound(decay.min(), drive_bound(bank), elapsed=elapsed)
        assert bool((modes <= modewise * SLACK + 1e-12).all())
        assert bool((modes.norm(dim=-1) <= whole * SLACK + 1e-12).all())


@given(seeds, st.integers(1, 60), st.floats(0, 5))
def test_state_bound_counts_the_initial_state(seed, length, initial):
    generator = torch.Generator().manual_seed(seed)
    model = build_model(seed=seed % 97)
    steps = torch.rand(1, length, generator=generator, dtype=torch.float64)
    drive = torch.randn(1, length, 6, generator=generator, dtype=torch.float64)
    drive = drive / drive.norm(dim=-1, keepdim=True)
    start = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    start = initial * start / start.norm()
    transition, gain = model.direct.poles.hold(steps)
    states = scan_chunked(transition, multiply(gain, drive), start).detach()
    allowed = state_bound(model.direct.poles.decay.detach().min(), 1.0, elapsed=steps.cumsum(dim=1), initial=initial)
    assert bool((states.norm(dim=-1) <= allowed * SLACK).all())


@given(seeds, lengths, amplitudes)
def test_synthesized_stream_is_bounded_relative_to_the_lift(seed, length, amplitude):
    model, values, side_inputs = draw(seed, length, amplitude)
    sequence = read_sequence(values, channels=2, like=model.project.weight, **side_inputs)
    grid = make_grid(sequence)
    lifted = sequence.keep_valid(model.direct.lift(model.project(sequence.values), grid))
    normed = model.direct.norm(lifted)
    states = model.trajectories(sequence, grid)[0]
    stream = model.synthesis(lifted, states @ model.direct.frame().mT, normed).detach()
    allowed = stream_bound(model, float(lifted.detach().norm(dim=-1).max()))
    assert float(stream.norm(dim=-1).max()) <= allowed * SLACK


@given(seeds, st.integers(1, 40), st.floats(1e-6, 10), st.floats(0, 1))
def test_descriptors_move_no_further_than_their_trajectories(seed, length, size, change):
    generator = torch.Generator().manual_seed(seed)
    valid = torch.rand(1, length, generator=generator) > 0.2
    grid = make_grid(Sequence(torch.zeros(1, length, 1, dtype=torch.float64), None, valid, valid))
    sizes, changes, blocks = [], [], []
    for _ in range(2):
        one = size * torch.randn(1, length, 6, generator=generator, dtype=torch.float64)
        other = one + change * torch.randn(1, length, 6, generator=generator, dtype=torch.float64)
        sizes.append(max(float(z.norm(dim=-1).max()) for z in (one, other)))
        changes.append(float((one - other).norm(dim=-1).max()))
        images = [condition(read_moments(z, grid, (1, 2, 4))) for z in (one, other)]
        blocks.append(images[0] - images[1])
    moved = float(torch.stack(blocks).norm())
    assert moved <= perturbation_bound(sizes, changes) * SLACK + 1e-12


def test_bounds_are_tight_enough_to_be_reached_within_a_factor():
    # A constant drive along one mode's direction comes close to the modal bound, so the tests above can fail.
    model = build_model()
    poles = model.direct.poles
    with torch.no_grad():
        poles.raw_frequency.zero_()
    transition, gain = poles.hold(torch.ones((), dtype=torch.float64))
    drive = torch.zeros(1, 4000, 6, dtype=torch.float64)
    drive[..., 0] = 1.0
    state = float(scan_chunked(transition, multiply(gain, drive)).detach().norm(dim=-1).max())
    assert state == pytest.approx(float(state_bound(poles.decay.detach()[0], 1.0)), rel=1e-6)


def test_bounds_do_not_need_the_input():
    model = build_model("no-synthesis")
    assert stream_bound(model, 2.5) == 2.5
    assert math.isfinite(logit_bound(build_model("one-scan")))
    with pytest.raises(AlphabetError, match="energy_hidden"):
        logit_bound(build_model("energy-only"))
    with pytest.raises(AlphabetError, match="decay"):
        state_bound(torch.tensor([0.1, 0.0]), 1.0)
    with pytest.raises(AlphabetError, match="banks"):
        perturbation_bound([1.0], [1.0, 2.0])
