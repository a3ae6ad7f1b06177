"""The irregular grid's promises: one rule for support, equal to the token path on a unit grid."""

import pytest
import torch
from alphabet_core.definition import describe_by_definition
from alphabet_core.grid import LIFT_OFFSETS, SNAP, ClockGrid
from alphabet_testing.models import build_model
from hypothesis import assume, given
from hypothesis import strategies as st

seeds = st.integers(0, 2**20)


def draw(seed, length, *, batch=2, channels=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, length, channels, generator=generator, dtype=dtype)
    steps = 3.0 * torch.rand(batch, length, generator=generator, dtype=dtype)
    steps[torch.rand(batch, length, generator=generator) < 0.2] = 0.0
    valid = torch.rand(batch, length, generator=generator) > 0.3
    observed = torch.rand(batch, length, channels, generator=generator) > 0.3
    return values, steps, observed, valid


@given(seeds, st.integers(1, 40), st.booleans())
def test_a_unit_grid_is_the_token_path_for_any_mask(seed, length, masked):
    values, _, observed, valid = draw(seed, length, dtype=torch.float32)
    masks = {"observed": observed, "valid": valid} if masked else {}
    model = build_model(dtype=torch.float32)
    tokens = model.describe(values, **masks)
    clock = model.describe(values, time_delta=torch.ones(values.shape[:2]), **masks)
    torch.testing.assert_close(clock, tokens, rtol=0, atol=1e-6)


@given(seeds, st.integers(1, 15), st.integers(1, 4), st.integers(1, 4))
def test_invalid_tokens_around_a_sequence_never_change_it(seed, length, before, after):
    values, steps, observed, valid = draw(seed, length)
    extra = torch.Generator().manual_seed(seed + 1)

    def around(tensor, fill):
        shape = (tensor.shape[0], before + after, *tensor.shape[2:])
        padding = fill(shape).to(tensor.dtype)
        return torch.cat((padding[:, :before], tensor, padding[:, before:]), dim=1)

    model = build_model()
    plain = model.describe(values, time_delta=steps, observed=observed, valid=valid)
    padded = model.describe(
        around(values, lambda shape: torch.full(shape, torch.nan)),
        time_delta=around(steps, lambda shape: 10 ** (36 * torch.rand(shape, generator=extra, dtype=steps.dtype) - 18)),
        observed=around(observed, lambda shape: torch.rand(shape, generator=extra) > 0.5),
        valid=around(valid, torch.zeros),
    )
    torch.testing.assert_close(padded, plain, rtol=1e-9, atol=1e-9)


def test_the_first_step_may_be_zero_behind_an_invalid_token():
    # The invalid token then shares the first valid one's instant and must not stand for it.
    values, steps, _, _ = draw(3, 6)
    steps[:, 0] = 0.0
    model = build_model()
    plain = model.describe(values, time_delta=steps)
    padded = model.describe(
        torch.nn.functional.pad(values, (0, 0, 1, 0)),
        time_delta=torch.nn.functional.pad(steps, (1, 0), value=1.0),
        valid=torch.nn.functional.pad(torch.ones(2, 6), (1, 0)),
    )
    torch.testing.assert_close(padded, plain, rtol=1e-10, atol=1e-10)


def later_tokens(steps, valid):
    """Where a valid token comes earlier at the same instant: steps of length zero lead back to one."""
    later = torch.zeros_like(valid)
    for t in range(1, steps.shape[1]):
        later[:, t] = (steps[:, t] == 0) & (valid[:, t - 1] | later[:, t - 1])
    return later


NEAR_SNAP = torch.tensor([1e-7, 5e-7, 9e-7, 2e-6], dtype=torch.float64)


def draw_near_snap(seed, length):
    """Sequences whose instants are shared or nearly so: many steps are zero, or about as long as the snap distance."""
    generator = torch.Generator().manual_seed(seed)
    values, steps, observed, valid = draw(seed, length)
    if seed % 2:
        steps = steps.ceil()  # then taps and lags meet instants too
    shape = steps.shape
    nearly = NEAR_SNAP[torch.randint(0, len(NEAR_SNAP), shape, generator=generator)]
    steps = torch.where(torch.rand(shape, generator=generator) < 0.3, nearly, steps)
    steps[torch.rand(shape, generator=generator) < 0.3] = 0.0
    return values, steps, observed, valid


def is_ambiguous(steps):
    """Whether some query is as far from an instant as the snap distance, up to rounding, which then decides."""
    clock = steps.cumsum(dim=1)
    offsets = torch.tensor([*LIFT_OFFSETS, -1, -2], dtype=clock.dtype)
    distance = (clock.unsqueeze(1) - clock.unsqueeze(2)).unsqueeze(-1) + offsets
    return bool(((distance.abs() - SNAP).abs() < 1e-12).any())


@given(seeds, st.integers(1, 25), st.booleans(), st.sampled_from(["full", "one-scan", "no-synthesis"]))
def test_shared_and_nearly_shared_instants_are_read_as_the_definition_reads_them(seed, length, masked, variant):
    values, steps, observed, valid = draw_near_snap(seed, length)
    assume(not is_ambiguous(steps))
    side_inputs = {"time_delta": steps} | ({"observed": observed, "valid": valid} if masked else {})
    model = build_model(variant)
    found = model.describe(values, **side_inputs).detach()
    expected = torch.from_numpy(describe_by_definition(model, values, **side_inputs))
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-12)  # fifty roundings of numbers of order one


@pytest.mark.slow
@given(seeds, st.integers(1, 25), st.booleans(), st.sampled_from(["full", "one-scan", "no-synthesis"]))
def test_values_of_later_tokens_at_an_instant_change_neither_outputs_nor_gradients(seed, length, masked, variant):
    values, steps, observed, valid = draw(seed, length)
    masks = {"observed": observed, "valid": valid} if masked else {}
    later = later_tokens(steps, valid if masked else torch.ones_like(valid))
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed + 1), dtype=values.dtype)
    model = build_model(variant)
    found = []
    for given_values in (values, torch.where(later.unsqueeze(-1), 10.0 * noise, values)):
        inputs = given_values.clone().requires_grad_(), steps.clone().requires_grad_()
        logits = model(inputs[0], time_delta=inputs[1], **masks)
        loss = (logits * torch.arange(1.0, 4.0, dtype=logits.dtype)).sum()
        gradients = torch.autograd.grad(loss, [*inputs, *model.parameters()])
        assert not bool(gradients[0][later].any())
        found.append([logits.detach(), *gradients])
    for first, second in zip(*found, strict=True):
        assert torch.equal(first, second)


def test_a_value_at_an_earlier_tokens_instant_is_never_an_interpolations_neighbour():
    steps = torch.tensor([[1.0, 2.0, 0.0, 3.0, 2.5, 1.0, 3.0]], dtype=torch.float64)
    values, _, _, _ = draw(1, 7, batch=1)
    changed = values.clone()
    changed[:, 2] += 5.0
    model = build_model()
    assert torch.equal(model(values, time_delta=steps), model(changed, time_delta=steps))


@given(seeds, st.integers(2, 12), st.integers(2, 7))
def test_splitting_time_finer_does_not_move_the_clock(seed, length, parts):
    _, steps, _, _ = draw(seed, length)
    fine = (steps / parts).repeat_interleave(parts, dim=1)
    coarse_clock = ClockGrid(steps, steps.unsqueeze(-1), None).clock
    fine_clock = ClockGrid(fine, fine.unsqueeze(-1), None).clock
    elapsed = fine_clock[:, parts - 1 :: parts] - fine_clock[:, parts - 1 : parts]  # since the first coarse token
    torch.testing.assert_close(elapsed, coarse_clock, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("step", "lag"), [(0.1, 1), (0.25, 1), (1 / 3, 2), (0.7, 7), (0.05, 8)])
def test_rounding_never_decides_support(step, lag):
    # On a uniform grid whose float32 step does not divide the lag exactly, a lag that is a whole number of steps away
    # must be the token itself, everywhere along a long sequence.
    length, whole = 4000, round(lag / step)
    grid = ClockGrid(torch.full((1, length), step), torch.zeros(1, length, 1), None)
    lookup = grid._locate(-lag)
    token = torch.arange(length)
    assert bool(lookup.supported[0].equal(token >= whole))
    assert bool((lookup.left == lookup.right)[0, whole:].all())
    assert bool((lookup.left[0, whole:] == token[whole:] - whole).all())


@given(seeds, st.integers(2, 20), st.sampled_from([-8, -4, -2, -1, 4, 8]))
def test_the_interpolant_reproduces_a_straight_line(seed, length, offset):
    _, steps, _, valid = draw(seed, length)
    grid = ClockGrid(steps, steps.unsqueeze(-1), valid)
    line = 2.0 * grid.clock - 1.0
    lookup = grid._locate(offset)
    sampled = lookup.sample(line.unsqueeze(-1)).squeeze(-1)
    expected = torch.where(lookup.supported, line + 2.0 * offset, 0.0)
    torch.testing.assert_close(sampled, expected, rtol=0, atol=1e-5)  # a snapped query is off by up to 1e-6 in time


@given(seeds, st.integers(1, 20), st.sampled_from([-4, -1, 4]))
def test_support_ends_with_the_recorded_span_and_at_invalid_tokens(seed, length, offset):
    _, steps, _, valid = draw(seed, length)
    grid = ClockGrid(steps, steps.unsqueeze(-1), valid)
    lookup = grid._locate(offset)
    query = grid.clock + offset
    outside = (query < grid.clock[:, :1] - 1e-6) | (query > grid.clock[:, -1:] + 1e-6)
    assert not bool((lookup.supported & outside).any())
    used = valid.gather(1, lookup.left) & (valid.gather(1, lookup.right) | (lookup.blend == 0))
    assert bool(used[lookup.supported].all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", [1e6, 1e30, 1e300])
def test_a_very_long_step_forgets_and_nothing_overflows(dtype, step):
    model = build_model(dtype=dtype)
    values, steps, _, _ = draw(7, 9, dtype=dtype)
    steps = steps.double()
    steps[:, 4] = step
    steps.requires_grad_()
    logits = model(values, time_delta=steps)
    logits.sum().backward()
    assert bool(torch.isfinite(logits).all())
    assert all(bool(torch.isfinite(p.grad).all()) for p in (*model.parameters(), steps))


def test_masked_irregular_sequences_of_different_length_can_share_a_batch():
    values, steps, observed, valid = draw(5, 12, batch=1)
    model = build_model()
    alone = model(values[:, :7], time_delta=steps[:, :7], observed=observed[:, :7], valid=valid[:, :7])
    both = model(
        values.expand(2, -1, -1),
        time_delta=steps.expand(2, -1),
        observed=observed.expand(2, -1, -1),
        valid=torch.stack((valid[0] & (torch.arange(12) < 7), valid[0])),
    )
    torch.testing.assert_close(both[:1], alone, rtol=1e-10, atol=1e-10)
