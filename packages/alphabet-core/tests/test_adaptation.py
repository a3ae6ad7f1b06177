"""Lifts started on the data: each filter has the deviation and the level that were drawn for it, masks respected."""

import pytest
import torch
from alphabet_core import VARIANTS, Alphabet, AlphabetConfig, AlphabetError, adapt, read_sequence
from alphabet_core.adaptation import SHARPNESS, ZERO_MEAN_SHARE
from alphabet_core.grid import make_grid


def make_model(variant="full", channels=2):
    torch.manual_seed(5)
    return Alphabet(AlphabetConfig.variant(variant, channels=channels, width=32, modes=8, outputs=3))


VALUES = torch.randn(8, 40, 2, generator=torch.Generator().manual_seed(1)).cumsum(1)


def filtered(model, values, **side_inputs):
    """What the direct lift's filters give in front of bias and SiLU, (tokens, D), at valid tokens."""
    sequence = read_sequence(values, channels=2, like=model.project.weight, **side_inputs)
    grid = make_grid(sequence)
    with torch.no_grad():
        given = grid.convolve(model.project(sequence.values), model.direct.lift.kernel)
    return given.flatten(0, 1) if sequence.valid is None else given[sequence.valid]


@pytest.mark.parametrize("irregular", [False, True])
def test_each_filter_has_its_deviation_and_its_level(irregular):
    model = make_model()
    draw = torch.Generator().manual_seed(2)
    given = {"valid": torch.rand(8, 40, generator=draw) < 0.8, "observed": torch.rand(8, 40, 2, generator=draw) < 0.8}
    if irregular:
        given["time_delta"] = torch.rand(8, 40, generator=draw)
    adapt(model, VALUES, seed=3, **given)
    tokens = filtered(model, VALUES, **given)
    deviation = tokens.std(dim=0, correction=0)
    assert (deviation > 0.99 * SHARPNESS[0]).all()
    assert (deviation < 1.01 * SHARPNESS[1]).all()
    level = -model.direct.lift.bias.detach()
    assert (level >= tokens.min(dim=0).values - 1e-4).all()
    assert (level <= tokens.max(dim=0).values + 1e-4).all()
    # The levels are spread over the signal: some feature switches in every quarter of it.
    share = (tokens < level).float().mean(dim=0)
    assert torch.histc(share, bins=4, min=0, max=1).min() > 0


def test_the_same_seed_gives_the_same_start_and_another_another():
    models = [make_model() for _ in range(3)]
    for model, seed in zip(models, (3, 3, 4), strict=True):
        adapt(model, VALUES, seed=seed)
    first, same, other = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_most_filters_do_not_see_a_constant():
    model = make_model()
    adapt(model, VALUES, seed=3)
    for bank in model.banks():
        kernel = bank.lift.kernel.detach()
        blind = (kernel.sum(dim=1).abs() < 1e-5 * kernel.abs().sum(dim=1)).float().mean()
        assert abs(float(blind) - ZERO_MEAN_SHARE) < 0.3


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_can_be_started_on_data(variant):
    model = make_model(variant)
    before = model.head.state_dict()
    adapt(model, VALUES, seed=3)
    assert torch.isfinite(model(VALUES)).all()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.head.state_dict().items())


def test_a_constant_signal_leaves_finite_parameters():
    model = make_model()
    adapt(model, torch.full((3, 20, 2), 4.0), seed=0)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert torch.isfinite(model(VALUES)).all()


def test_values_that_nobody_may_read_change_nothing():
    valid = torch.ones(8, 40, dtype=torch.bool)
    valid[:, 30:] = False
    spoiled = torch.where(valid.unsqueeze(-1), VALUES, 1e6)
    models = [make_model(), make_model()]
    for model, values in zip(models, (VALUES, spoiled), strict=True):
        adapt(model, values, seed=1, valid=valid)
    assert torch.equal(models[0].cascaded.lift.kernel, models[1].cascaded.lift.kernel)


def test_mistakes_are_said():
    with pytest.raises(AlphabetError, match="valid token"):
        adapt(make_model(), VALUES, seed=0, valid=torch.zeros(8, 40, dtype=torch.bool))
    with pytest.raises(AlphabetError, match="Alphabet"):
        adapt(torch.nn.Linear(2, 2), VALUES, seed=0)


def test_nothing_is_overwritten_by_a_call_that_fails():
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(AlphabetError, match="valid token"):
        adapt(model, VALUES, seed=0, valid=torch.zeros(8, 40, dtype=torch.bool))
    with pytest.raises(AlphabetError, match="one row per sequence"):
        adapt(model, VALUES, seed=0, valid=torch.ones(30, 40, dtype=torch.bool))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
