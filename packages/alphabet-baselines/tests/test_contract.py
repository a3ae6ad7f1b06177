"""The one contract: shapes, gradients, padding, metadata, errors; for every family."""

import itertools

import pytest
import torch
from alphabet_baselines import FAMILIES, METADATA, build
from alphabet_core import AlphabetError, TrainingStep, value_checks
from alphabet_testing.families import CASES, CHANNELS, OUTPUTS, draw, make_model
from hypothesis import given
from hypothesis import strategies as st

every_case = pytest.mark.parametrize(("family", "choice"), CASES, ids=lambda value: str(value))
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_case
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 3), (4, 40)])
def test_any_batch_and_length_gives_one_row_of_logits_each(family, choice, batch, length):
    logits = make_model(family, choice)(draw(batch, length))
    assert logits.shape == (batch, OUTPUTS)
    assert torch.isfinite(logits).all()


@every_case
def test_no_single_parameter_is_inactive(family, choice):
    reached = {}
    for seed in range(6):  # a ReLU may be off, or a frequency start at zero; what is inactive is so for all weights
        model = make_model(family, choice, seed=seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        model(3.0 * draw(4, 150, seed=seed)).square().sum().backward()
        for name, parameter in model.named_parameters():
            reached[name] = torch.maximum(reached.get(name, torch.zeros(())), parameter.grad.abs())
    for name, gradient in reached.items():
        assert float(gradient.min()) > 1e-12, f"an entry of {name} does nothing"


@pytest.mark.parametrize("family", ["cnn1d", "tcn", "transformer", "s4d", "s5", "lru"])
def test_every_token_has_a_gradient(family):
    values = draw().requires_grad_()
    make_model(family)(values).square().sum().backward()
    assert bool((values.grad.abs().sum(dim=-1) > 0).all())


@every_family
def test_gradients_are_the_derivatives(family):
    model, values = make_model(family, width=3), draw(2, 6).requires_grad_()
    parameters = tuple(model.parameters())

    def logits(values, *_):
        return model(values)

    assert torch.autograd.gradcheck(logits, (values, *parameters), atol=1e-6)


@every_family
@given(seed=st.integers(0, 2**16), places=st.lists(st.integers(0, 9), max_size=8))
def test_invalid_tokens_anywhere_never_change_the_logits(family, seed, places):
    model = make_model(family, seed=seed % 3, metadata=METADATA)
    values, step = draw(2, 9, seed=seed), torch.rand(2, 9, dtype=torch.float64)
    observed = torch.rand(2, 9, CHANNELS) < 0.8
    expected = model(values, time_delta=step, observed=observed)
    kept = torch.ones(2, 9, dtype=torch.bool)
    for place in places:  # a token of garbage that takes no time, so that the clock of the others stays
        values = torch.cat((values[:, :place], torch.full((2, 1, CHANNELS), torch.nan), values[:, place:]), dim=1)
        step = torch.cat((step[:, :place], torch.zeros(2, 1), step[:, place:]), dim=1)
        observed = torch.cat(
            (observed[:, :place], torch.ones(2, 1, CHANNELS, dtype=torch.bool), observed[:, place:]), 1
        )
        kept = torch.cat((kept[:, :place], torch.zeros(2, 1, dtype=torch.bool), kept[:, place:]), dim=1)
    padded = model(values, time_delta=step, observed=observed, valid=kept)
    torch.testing.assert_close(padded, expected, rtol=1e-10, atol=1e-11)


@every_case
def test_rows_of_different_length_are_read_alone(family, choice):
    model, values = make_model(family, choice), draw(3, 12)
    valid = torch.arange(12) < torch.tensor([12, 5, 1]).unsqueeze(1)
    together = model(values, valid=valid)
    for row, length in enumerate((12, 5, 1)):
        alone = model(values[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-10, atol=1e-11)


@every_family
def test_a_sequence_without_a_valid_token_gets_the_head_bias(family):
    model, values = make_model(family), draw(2, 7)
    valid = torch.tensor([[True] * 7, [False] * 7])
    logits = model(values, valid=valid)
    torch.testing.assert_close(logits[1], model.head.bias)
    logits.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


@every_family
def test_what_is_not_observed_is_not_read(family):
    model, values = make_model(family, metadata=("observed",)), draw(2, 8)
    observed = torch.rand(2, 8, CHANNELS) < 0.6
    spoiled = torch.where(observed, values, torch.nan)
    torch.testing.assert_close(model(values, observed=observed), model(spoiled, observed=observed), rtol=0, atol=0)


@every_family
def test_metadata_channels_are_seen(family):
    model, values = make_model(family, metadata=METADATA), draw(2, 8)
    step = torch.rand(2, 8, dtype=torch.float64) * 5.0
    observed = values > 0  # zero where it is missing: only the indicators can tell it from a true zero
    zeroed = torch.where(observed, values, 0.0)
    assert not torch.allclose(model(values), model(values, time_delta=step))
    assert not torch.allclose(model(zeroed), model(zeroed, observed=observed))
    torch.testing.assert_close(model(values), model(values, time_delta=torch.ones(2, 8).double()), rtol=0, atol=0)


def test_time_goes_on_while_tokens_are_invalid():
    model, values = make_model("gru", metadata=("time_delta",)), draw(1, 6)
    step = torch.tensor([[9.0, 1.0, 2.0, 3.0, 4.0, 5.0]], dtype=torch.float64)
    valid = torch.tensor([[False, True, False, False, True, True]])
    merged = torch.tensor([[1.0, 2.0 + 3.0 + 4.0, 5.0]], dtype=torch.float64)
    torch.testing.assert_close(
        model(values, time_delta=step, valid=valid), model(values[:, [1, 4, 5]], time_delta=merged)
    )


def test_a_mask_that_hides_nothing_changes_no_step():
    model, values = make_model("gru", metadata=("time_delta",)), draw(2, 6)
    step = torch.rand(2, 6, dtype=torch.float64)
    step[:, 0] = 1e17  # a sum of steps would swallow the others
    full = torch.ones(2, 6, dtype=torch.bool)
    torch.testing.assert_close(
        model(values, time_delta=step, valid=full), model(values, time_delta=step), rtol=0, atol=0
    )


def test_on_a_unit_grid_an_invalid_token_takes_one_unit():
    model, values = make_model("gru", metadata=("time_delta",)), draw(1, 4)
    valid = torch.tensor([[True, False, False, True]])
    step = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(model(values, valid=valid), model(values[:, [0, 3]], time_delta=step))


@every_family
def test_half_precision_is_refused_in_words(family):
    with pytest.raises(
        AlphabetError, match=r"the families compute in torch\.float32 or torch\.float64; this model is torch\.float16"
    ):
        make_model(family).half()(draw().half())


@every_family
def test_a_family_builds_under_any_default_dtype(family):
    torch.set_default_dtype(torch.float64)
    try:
        model = build(family, channels=1, outputs=2, width=4, choice=FAMILIES[family].choices[0])
        assert model(draw(1, 5, 1)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@every_family
def test_a_clock_that_would_be_ignored_is_refused(family):
    with pytest.raises(AlphabetError, match=r"time_delta is given.*metadata=\('time_delta',\)"):
        make_model(family)(draw(1, 3), time_delta=torch.ones(1, 3, dtype=torch.float64))


BAD = {
    "rank": (lambda v: {"values": v[0]}, r"values must have shape \(batch, time, channels=2\)"),
    "channels": (lambda v: {"values": v[..., :1]}, "values must have 2 channels"),
    "empty": (lambda v: {"values": v[:, :0]}, "sequence has no token"),
    "dtype": (lambda v: {"values": v.float()}, "values is torch.float32 but the model is torch.float64"),
    "nan": (lambda v: {"values": v / 0.0}, "values must be finite wherever they are observed and valid"),
    "mask": (lambda v: {"values": v, "valid": 0.5 * torch.ones(3, 21)}, "valid must hold only 0 and 1"),
    "shape": (lambda v: {"values": v, "observed": torch.ones(3, 2)}, "observed must have shape"),
    "step": (
        lambda v: {"values": v, "time_delta": -torch.ones(3, 21).double()},
        "time_delta must be finite and not neg",
    ),
}


@pytest.mark.parametrize(("family", "fault"), list(itertools.product(FAMILIES, BAD)))
def test_bad_input_is_refused_in_the_words_of_the_core(family, fault):
    spoil, message = BAD[fault]
    arguments = spoil(draw())
    with pytest.raises(AlphabetError, match=message):
        make_model(family, metadata=METADATA)(arguments.pop("values"), **arguments)


@every_family
def test_unchecked_a_nan_reaches_the_logits(family):
    values = draw(2, 8)
    values[0, 3, 1] = torch.nan
    with value_checks(False):
        logits = make_model(family)(values)
    assert torch.isnan(logits[0]).all()
    assert torch.isfinite(logits[1]).all()


@every_case
def test_only_the_acausal_families_look_ahead(family, choice):
    model, values = make_model(family, choice).backbone, draw(1, 12)
    later = values.clone()
    later[:, 9:] += 1.0
    moved = (model(values, None) - model(later, None)).abs().amax(dim=(0, 2))
    assert bool((moved[9:] > 1e-6).all())
    assert bool((moved[:9] > 1e-12).any()) == (family in ("cnn1d", "transformer"))


@every_family
def test_one_seed_gives_one_model_and_one_training(family):
    def train():
        model = make_model(family, seed=5).float()
        step = TrainingStep(model)
        return [float(step(draw(4, 9, seed=k).float(), torch.arange(4) % OUTPUTS)) for k in range(3)], model

    (first, model), (second, other) = train(), train()
    assert first == second
    assert first[0] != first[1]
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@every_family
def test_float32_logits_are_close_to_float64(family):
    model, values = make_model(family, width=16), draw(4, 64)
    exact = model(values)
    rough = model.float()(values.float()).double()
    # A few hundred roundings of 6e-8 relative to logits of order one.
    assert float((rough - exact).abs().max().detach()) < 2e-5
