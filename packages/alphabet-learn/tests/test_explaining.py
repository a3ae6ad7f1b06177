import math
from functools import cache
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from alphabet_core import attribute
from alphabet_learn.banks import poles_of
from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.explaining import explain
from alphabet_learn.poles import _energy, channel_shares, lenses_of, list_poles, read_head, short
from alphabet_learn.problem import Problem
from alphabet_learn.recipe import Recipe
from alphabet_learn.series import Series, read_series
from alphabet_learn.trained import Trained
from hypothesis import given

ASPECTS = ("period", "memory", "channel", "view", "kind", "time")
METHODS = ("closed form", "trained")
ROUNDING = 1e-5  # of a trained model's outputs, float32 of at most about 10, and of their differences


def waves(inputs, count=12, length=40, channels=2):
    """Sines of three frequencies; masked: ragged and with gaps; timed: at irregular instants."""
    draw = np.random.default_rng(1)
    times = np.cumsum(draw.uniform(0.5, 1.5, (count, length)), axis=1) if "timed" in inputs else None
    clock = np.tile(np.arange(length), (count, 1)) if times is None else times
    angle = (0.3 + 0.4 * (np.arange(count) % 3))[:, None] * clock
    values = np.sin(angle[:, None, :] + draw.uniform(0, 6, (count, channels, 1)))
    values += 0.1 * draw.normal(size=values.shape)
    if "masked" in inputs:
        values[draw.random(values.shape) < 0.1] = np.nan
        values[:, 0, 0] = 0.5
        for row, end in enumerate(draw.integers(20, length + 1, count)):
            values[row, :, end:] = np.nan
        values[0, :, 1:] = np.nan  # a series of one token, which has no change
    return read_series(values, times=times)


def targets(task, count=12):
    labels = np.arange(count) % 3
    kind, table = {
        "binary": ("classification", labels[:, None] == 1),
        "multiclass": ("classification", labels[:, None] == np.arange(3)),
        "multilabel": ("multilabel", np.stack((labels > 0, labels > 1), axis=1)),
        "regression": ("regression", 1000.0 + 50.0 * labels[:, None]),
        "regressions": ("regression", np.stack((labels, 7.0 - labels), axis=1)),
    }[task]
    return Problem(kind, table.astype(np.float64), np.ones(count))


@cache
def fitted(method, inputs="", task="binary", ensemble=1):
    """What estimators are to this module, and the series that it was fitted on."""
    engine = (
        ClosedForm(Recipe(banks_per_view=1, modes=16))
        if method == "closed form"
        else Trained(sizes=((8, 4),), epochs=2, budget_seconds=None, ensemble=ensemble)
    )
    series, problem = waves(inputs), targets(task)
    engine.fit(series, problem, seed=0)
    classes = {"binary": ["no", "yes"], "multiclass": ["a", "b", "c"], "multilabel": [10, 20]}.get(task)
    estimator = SimpleNamespace(engine_=engine, kind_=problem.kind, timed_="timed" in inputs, dated_=False)
    if classes is not None:
        estimator.classes_ = np.array(classes)
    return estimator, series


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["", "masked", "timed", "masked and timed"])
@pytest.mark.parametrize("method", METHODS)
def test_contributions_and_every_table_of_them_sum_to_the_margin(method, inputs):
    estimator, series = fitted(method, inputs)
    why = explain(estimator, series)
    departure = why.margin - why.baseline
    assert np.abs(why.contributions.sum(axis=1) - departure).max() <= 1e-6
    for aspect in ASPECTS:
        labels, table = why.by(aspect)
        assert table.shape == (series.count, len(labels))
        assert np.abs(table.sum(axis=1) - departure).max() <= 1e-6, aspect
    # A model's outputs are rounded to float32, each by half of 2^-23 of its size; there are two of them.
    scores = estimator.engine_.scores(series)[:, 0]
    largest = 1.0 if method == "closed form" else np.abs(estimator.engine_.outputs(series)).max()
    assert np.abs(why.margin - scores).max() <= max(1e-6, 2.0**-22 * largest)


@pytest.mark.parametrize("method", METHODS)
def test_the_margin_is_that_of_the_predicted_class_over_the_runner_up(method):
    estimator, series = fitted(method, task="multiclass")
    why = explain(estimator, series)
    ordered = np.sort(estimator.engine_.scores(series), axis=1)
    assert np.abs(why.margin - (ordered[:, -1] - ordered[:, -2])).max() <= ROUNDING
    assert (why.margin >= 0).all()
    winner = estimator.engine_.scores(series)[0].argmax()
    assert why.asked[0].startswith(f"margin of {'abc'[winner]} over ")

    of_b = explain(estimator, series, target="b")
    scores = estimator.engine_.scores(series)
    assert np.abs(of_b.margin - (scores[:, 1] - scores[:, [0, 2]].max(axis=1))).max() <= ROUNDING


def test_a_trained_models_contributions_are_the_cores():
    estimator, series = fitted("trained", task="multiclass")
    why, engine = explain(estimator, series), estimator.engine_
    model, center = engine.models[0], engine.baseline[0]
    core = attribute(model, model.describe(engine.scaler(series).tensor()), center)
    assert np.abs(why.contributions - core.contributions.flatten(1).numpy()).max() <= 1e-4
    assert np.abs(why.baseline - core.baseline.numpy()).max() <= 1e-4


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("task", "target"), [("regression", None), ("regressions", 1), ("multilabel", 20)])
def test_values_and_labels_are_explained_in_their_own_units(method, task, target):
    estimator, series = fitted(method, task=task, ensemble=2)
    why = explain(estimator, series, target=target)
    column = 0 if target is None else 1
    scores = estimator.engine_.scores(series)[:, column]
    assert np.abs(why.margin - scores).max() <= 1e-6 * max(1.0, np.abs(scores).max())
    if method == "trained":
        assert {pole.bank for pole in why.poles} == {0, 1}


def test_asking_for_the_other_of_two_classes_turns_every_sign():
    estimator, series = fitted("closed form")
    why, against, same = (explain(estimator, series, target=target) for target in (None, "no", "yes"))
    assert np.array_equal(why.contributions, -against.contributions)
    assert np.array_equal(why.margin, same.margin)
    assert (why.asked[0], against.asked[0]) == ("score of yes over no", "score of no over yes")


@pytest.mark.parametrize(
    ("task", "target", "found"),
    [
        ("multilabel", None, "There are 2 outputs: pass target= one of 10, 20, to say which to explain."),
        ("regressions", 2, "target is 2, which is no output of this model: pass one of 0, 1."),
        ("multilabel", [0, 1], "target is [0, 1], which is no output of this model: pass one of 10, 20."),
        ("multilabel", 1, "target is 1, which is no output of this model: pass one of 10, 20."),
        ("binary", "maybe", "target is 'maybe', which is no output of this model: pass one of no, yes."),
    ],
)
def test_a_target_that_is_missing_or_unknown_is_told(task, target, found):
    estimator, series = fitted("closed form", task=task)
    with pytest.raises(LearnError) as raised:
        explain(estimator, series, target=target)
    assert str(raised.value) == found


@pytest.mark.parametrize("method", METHODS)
def test_padding_gets_nothing_and_one_token_gets_everything(method):
    estimator, series = fitted(method, "masked")
    table = explain(estimator, series).by("time")[1]
    assert (table[~series.valid] == 0).all()
    why = explain(estimator, series)[0]
    assert series.lengths[0] == 1
    assert math.isclose(why.by("time")[1][0, 0], why.margin[0] - why.baseline[0], abs_tol=1e-9)


@pytest.mark.parametrize("inputs", ["masked", "timed"])
def test_the_energy_that_places_a_pole_in_time_is_the_one_that_the_head_reads(inputs):
    estimator, series = fitted("closed form", inputs)
    for lens in estimator.engine_.lenses:
        seen, bank = lens.see(series), lens.banks[0]
        coordinates = next(iter(lens.describe(series))).reshape(series.count, -1, 7)
        mean = _energy(bank, seen).sum(axis=1) / np.maximum(seen.lengths, 1)[:, None]
        assert np.abs(np.log1p(mean) - coordinates[:, :, 0]).max() <= 1e-3


def test_periods_and_memories_are_in_the_users_unit_of_time():
    estimator, series = fitted("closed form", "timed")
    minutes = Series(series.values, times=series.times / 60.0)
    engine = ClosedForm(Recipe(banks_per_view=1, modes=16))
    engine.fit(minutes, targets("binary"), seed=0)
    in_seconds, in_minutes = (list_poles(each.lenses, unit="") for each in (estimator.engine_, engine))
    for a, b in zip(in_seconds, in_minutes, strict=True):
        assert math.isclose(a.period, 60.0 * b.period, rel_tol=1e-4)
        assert math.isclose(a.memory, 60.0 * b.memory, rel_tol=1e-4)


def test_a_pole_is_named_by_what_it_measures():
    estimator, _ = fitted("closed form")
    poles = list_poles(estimator.engine_.lenses, unit="samples")
    lens = estimator.engine_.lenses[3]
    assert lens.view.span == 4
    pole, value = poles[3 * 32 + 16 + 5], poles_of(lens.banks[0])[1, 5]
    assert (pole.view, pole.bank, pole.kind, pole.mode) == ("averages of 4", 3, "cascaded", 5)
    assert math.isclose(pole.period, 4 * 2 * math.pi / value.imag)
    assert math.isclose(pole.memory, -4 / value.real)
    where = f"channel {pole.channels[0]}" if len(pole.channels) == 1 else "channels 0 and 1"
    expected = f"period {short(pole.period)} samples, memory {short(pole.memory)} (averages of 4, cascaded, {where})"
    assert str(pole) == expected


def test_a_pole_gives_half_to_each_feature_and_a_feature_to_channels_by_squared_weights():
    estimator, _ = fitted("closed form")
    bank = estimator.engine_.lenses[0].banks[0]
    squares = bank.project.weight.double().square().numpy()  # (2M, C)
    assert {1, 2} == set((squares > 0).sum(axis=1))
    of_features = squares / squares.sum(axis=1, keepdims=True)
    expected = (of_features[:16] + of_features[16:]) / 2
    assert np.allclose(channel_shares(bank), np.stack((expected, expected)))


def test_a_pole_that_does_not_turn_has_no_period():
    estimator, series = fitted("trained")
    model = estimator.engine_.models[0]
    before = model.direct.poles.raw_frequency.clone()
    try:
        with torch.no_grad():
            model.direct.poles.raw_frequency[0] = 0.0
        why = explain(estimator, series)
        assert why.poles[0].name.startswith("no period, memory ")
        assert why.by("period")[0][-1] == "16,384 samples or more"
        assert np.allclose(why.by("period")[1].sum(axis=1), why.margin - why.baseline, atol=1e-6)
    finally:
        with torch.no_grad():
            model.direct.poles.raw_frequency.copy_(before)


@pytest.mark.parametrize("method", METHODS)
def test_the_head_in_one_form_gives_the_engines_scores(method):
    estimator, series = fitted(method, task="multiclass", ensemble=2)
    lenses, head = lenses_of(estimator.engine_), read_head(estimator.engine_)
    coordinates = np.concatenate([block for lens in lenses for block in lens.describe(series)], axis=1)
    scores = head.intercept + head.standardize(coordinates, 0) @ head.weights
    assert np.abs(scores - estimator.engine_.scores(series)).max() <= ROUNDING


def test_one_series_of_many_is_explained_as_it_is_alone():
    estimator, series = fitted("closed form", "masked")
    why = explain(estimator, series)
    alone = explain(estimator, series.take([3]))
    assert np.abs(why[3].contributions - alone.contributions).max() <= 1e-6
    assert len(why) == 12
    assert len(why[2:5]) == 3
    assert why[-1].margin[0] == why.margin[11]
    assert np.allclose(why[3].by("time")[1], why.by("time")[1][3:4], atol=1e-6)


def test_a_printed_explanation_adds_up():
    estimator, series = fitted("closed form")
    why = explain(estimator, series)
    first, *rows, periods = str(why[0]).splitlines()
    assert first == f"score of yes over no: {why.margin[0]:+.4f}"
    assert rows[1].endswith(why[0].strongest(1)[0][0].name)
    assert rows[-1].endswith("other poles")
    assert abs(sum(float(row.split()[0]) for row in rows) - why.margin[0]) <= 5e-5 * (len(rows) + 1)
    assert periods.startswith("strongest periods: ")
    assert str(why).startswith("12 series explained by 128 poles")
    strength = [abs(amount) for _, amount in why[0].strongest(9)]
    assert strength == sorted(strength, reverse=True)


def test_a_frame_has_a_row_for_every_series_and_pole():
    estimator, series = fitted("closed form")
    why = explain(estimator, series)
    frame = why.to_frame()
    sums = frame.groupby("series")["contribution"].sum().to_numpy()
    assert np.allclose(sums + why.baseline, why.margin)
    assert frame["name"].iloc[130] == why.poles[2].name
    assert frame["channels"].iloc[0] == why.poles[0].channels


def test_an_unknown_aspect_is_told():
    estimator, series = fitted("trained")
    with pytest.raises(LearnError, match="by is 'colour': pass period, memory, channel, view, kind or time"):
        explain(estimator, series).by("colour")


@given(st.floats(1e-9, 1e12))
def test_short_numbers_are_short_and_near(number):
    text = short(number)
    assert len(text) <= 7
    assert abs(float(text.replace(",", "")) - number) <= 0.051 * number


def test_a_representation_is_one_line():
    estimator, series = fitted("closed form")
    text = repr(explain(estimator, series))
    assert text == "<Explanation of 12 series by 128 poles; print shows the strongest>"


def test_labels_with_names_are_asked_for_by_name_or_number():
    estimator, series = fitted("closed form", task="multilabel")
    named = SimpleNamespace(**{**vars(estimator), "classes_": np.array(["ten", "twenty"])})
    for by_number, by_name in ((0, "ten"), (1, "twenty")):
        assert explain(named, series, target=by_number).asked == explain(named, series, target=by_name).asked
    with pytest.raises(LearnError, match="target is 2, which is no output"):
        explain(named, series, target=2)


def test_tokens_are_labelled_by_elapsed_time_where_series_share_it():
    estimator, series = fitted("closed form", "timed")
    why = explain(estimator, series)
    assert why.by("time")[0].tolist() == list(range(40))  # every series has a clock of its own
    assert why[3].by("time")[0].tolist() == series.times[3].tolist()
    untimed = explain(*fitted("closed form"))
    assert untimed[3].by("time")[0].tolist() == list(range(40))


def test_the_unit_of_dates_is_named():
    estimator, series = fitted("closed form", "timed")
    dated = SimpleNamespace(**{**vars(estimator), "dated_": True})
    why = explain(dated, series)
    assert why.unit == "s"
    assert why.by("memory")[0][0].endswith(" s")
