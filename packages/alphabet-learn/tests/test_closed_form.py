"""The closed form: repeats and weights, masks and times, lengths down to one token, memory in both regimes."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from alphabet_learn.banks import draw_projection, make_bank, poles_of
from alphabet_learn.closed_form import ClosedForm, merge_duplicates
from alphabet_learn.labels import encode_classes, encode_multilabel, encode_values
from alphabet_learn.progress import Progress
from alphabet_learn.recipe import RECIPE, Recipe, View
from alphabet_learn.series import Series, read_series

SMALL = Recipe(banks_per_view=1, modes=16)


def make_waves(count=24, length=40, channels=1, seed=0):
    """Slow and fast waves of random phase in noise, and which of the two each is."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    phase = rng.uniform(0, 2 * np.pi, (count, channels, 1))
    waves = np.sin(phase + np.arange(length) * np.where(labels, 0.9, 0.4)[:, None, None])
    return waves + 0.3 * rng.standard_normal(waves.shape), labels


def fit(values, labels, *, recipe=SMALL, times=None, seed=0, weights=None):
    series = read_series(values, times=times)
    _, problem = encode_classes(labels, weights, balanced=False)
    engine = ClosedForm(recipe)
    engine.fit(series, problem, seed=seed)
    return engine, series


def test_the_recipe_is_the_one_that_was_frozen_before_its_confirmation():
    assert RECIPE.digest() == "0de637fa891e4922c398b1642b66924151311a414fcb29b4a4fa3b90ef73b41c"


def test_waves_are_told_apart():
    values, labels = make_waves()
    engine, _ = fit(values, labels)
    unseen, truth = make_waves(60, seed=1)
    found = engine.scores(read_series(unseen))[:, 0] > 0
    assert (found == truth).mean() > 0.95
    probabilities = engine.probabilities(read_series(unseen))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert ((probabilities[:, 1] > 0.5) == found).all()


def test_scores_are_the_intercept_and_a_sum_over_standardized_coordinates():
    values, labels = make_waves(channels=2)
    engine, series = fit(values, labels)
    coordinates = engine.describe(series)
    assert coordinates.shape == (24, engine.coordinates)
    expected = engine.head.intercept + coordinates @ engine.head.weights
    np.testing.assert_allclose(engine.scores(series), expected, rtol=0, atol=1e-9)


def test_a_weight_of_two_is_a_repetition_and_zero_is_absence():
    values, labels = make_waves()
    weights = np.ones(24)
    weights[:4], weights[4:7] = 2.0, 0.0
    kept = np.r_[0:4, 0:4, 7:24][::-1]  # in another order
    weighted, _ = fit(values, labels, weights=weights)
    repeated, _ = fit(values[kept], labels[kept])
    unseen = read_series(make_waves(10, seed=2)[0])
    np.testing.assert_allclose(weighted.scores(unseen), repeated.scores(unseen), rtol=1e-9, atol=1e-12)


def test_merging_keeps_series_of_the_same_values_with_other_targets_apart():
    values = np.ones((4, 5, 1), np.float32)
    _, problem = encode_classes(np.array([0, 1, 1, 0]), None, balanced=False)
    series, merged = merge_duplicates(Series(values), problem)
    assert series.count == 2
    assert sorted(merged.targets[:, 0]) == [0.0, 1.0]
    np.testing.assert_allclose(merged.weights, 1.0)


def test_threads_do_not_matter_and_seeds_do():
    values, labels = make_waves()
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(fit(values, labels)[0])
    finally:
        torch.set_num_threads(before)
    other, _ = fit(values, labels, seed=1)
    poles = [[poles_of(bank) for lens in engine.lenses for bank in lens.banks] for engine in (*found, other)]
    assert all(np.array_equal(a, b) for a, b in zip(poles[0], poles[1], strict=True))
    assert not np.array_equal(poles[0][0], poles[2][0])
    unseen = read_series(make_waves(10, seed=2)[0])
    np.testing.assert_allclose(found[0].scores(unseen), found[1].scores(unseen), rtol=1e-9, atol=1e-12)


def test_the_users_random_numbers_are_left_alone():
    values, labels = make_waves()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    fit(values, labels)
    assert torch.equal(torch.rand(2), expected)


def test_padding_and_what_is_missing_never_change_other_series():
    values, labels = make_waves(channels=2)
    values[3:, 1, 10:14] = np.nan
    engine, _ = fit(values, labels)
    alone = engine.scores(read_series([values[0][:, :25]]))
    beside = engine.scores(read_series([values[0][:, :25], values[1]]))
    np.testing.assert_allclose(beside[:1], alone, rtol=1e-5, atol=1e-5)


def test_a_regular_clock_is_no_clock():
    values, labels = make_waves()
    plain, _ = fit(values[..., :39], labels)  # not a whole number of blocks
    timed, _ = fit(values[..., :39], labels, times=np.arange(39) * 0.25 + 7.0)
    unseen = make_waves(6, seed=3)[0]
    expected = plain.scores(read_series(unseen))
    np.testing.assert_allclose(timed.scores(read_series(unseen, times=np.arange(40) * 0.25)), expected, atol=1e-9)


def test_a_regular_clock_beside_an_irregular_one_gives_the_same():
    values, labels = make_waves(12)
    engine, _ = fit(values, labels, times=np.arange(40.0))
    uneven = np.arange(40.0) + np.where(np.arange(40) % 2, 0.3, 0.0)
    unseen = make_waves(2, seed=3)[0]
    beside = engine.scores(read_series(list(unseen), times=[np.arange(40.0), uneven]))
    alone = engine.scores(read_series(list(unseen[:1]), times=[np.arange(40.0)]))
    np.testing.assert_allclose(beside[:1], alone, rtol=0, atol=1e-9)
    assert abs(beside[1, 0] - engine.scores(read_series(unseen[1:], times=np.arange(40.0)))[0, 0]) > 1e-4


@pytest.mark.slow
def test_irregular_times_are_read_by_the_clock():
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 2
    times = [np.sort(rng.uniform(0, 40, 50)) for _ in labels]
    speeds = np.where(labels, 0.9, 0.4)
    values = [np.sin(t * speed + rng.uniform(0, 6))[None] for t, speed in zip(times, speeds, strict=True)]
    engine, series = fit(values, labels, times=times)
    assert ((engine.scores(series)[:, 0] > 0) == labels).all()
    assert engine.lenses[0].unit != 1.0
    # Another unit of time is another number for the same clock.
    minutes, _ = fit(values, labels, times=[t / 60 for t in times])
    in_minutes = read_series(values, times=[t / 60 for t in times])
    np.testing.assert_allclose(minutes.scores(in_minutes), engine.scores(series), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_short_series_are_series(length):
    rng = np.random.default_rng(0)
    labels = np.arange(20) % 2
    values = rng.standard_normal((20, 1, length)) + 3.0 * labels[:, None, None]
    engine, series = fit(values, labels)
    assert ((engine.scores(series)[:, 0] > 0) == labels).mean() > 0.9
    assert np.isfinite(engine.scores(read_series([np.ones(1), np.arange(30.0)]))).all()


def test_constant_series_get_the_intercept():
    engine, series = fit(np.ones((6, 1, 10)), np.arange(6) % 2)
    np.testing.assert_allclose(engine.scores(series), 0.0, atol=1e-12)


def test_more_series_than_coordinates_give_the_same_head():
    recipe = Recipe(views=(View("values"),), banks_per_view=1, modes=16)
    values, labels = make_waves(300, 12)
    engine, series = fit(values, labels, recipe=recipe)
    assert series.count > engine.coordinates  # by the normal equations
    _, problem = encode_classes(labels, None, balanced=False)
    merged, problem = merge_duplicates(series, problem)
    targets = 2.0 * problem.targets - 1.0
    head, ridge = engine._fit_by_kernel(merged, targets, problem.weights, np.logspace(-3, 5, 17), Progress(False))
    assert ridge.penalty[0] == engine.penalty
    np.testing.assert_allclose(
        engine.describe(series) @ engine.head.weights, engine.describe(series) @ head.weights, atol=1e-6
    )


def test_values_and_several_labels_are_learned():
    values, labels = make_waves(40, channels=2)
    series = read_series(values)
    amplitude = values.std(axis=(1, 2)) + labels
    regression = ClosedForm(SMALL)
    regression.fit(series, encode_values(amplitude, None), seed=0)
    assert np.corrcoef(regression.scores(series)[:, 0], amplitude)[0, 1] > 0.9
    several = ClosedForm(SMALL)
    table = np.stack([labels, 1 - labels, labels], axis=1)
    several.fit(series, encode_multilabel(table, None), seed=0)
    assert (several.probabilities(series) > 0.5).astype(int).tolist() == table.tolist()


def test_banks_drawn_at_once_leave_the_users_random_numbers_alone():
    before, interval = torch.get_rng_state(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: make_bank(SMALL, 1), range(64)))
    finally:
        sys.setswitchinterval(interval)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("float64_by_default")
def test_torchs_default_dtype_may_be_float64():
    values, labels = make_waves()
    engine, series = fit(values, labels)
    assert ((engine.scores(series)[:, 0] > 0) == labels).mean() > 0.9


@pytest.mark.parametrize("missing", [False, True])
def test_a_series_without_weight_never_changes_the_model(missing):
    values, labels = make_waves(16, length=20)
    series, weights = list(values), np.append(np.ones(16), 0.0)
    if missing:
        series[2][0, 5] = np.nan
    unused = np.where(np.arange(33) % 3, 1e3, np.nan)[None, 1:]  # longer, and with gaps
    engine, _ = fit(series, labels)
    beside, _ = fit([*series, unused], np.append(labels, 0), weights=weights)
    unseen = read_series(make_waves(4, seed=3)[0])
    np.testing.assert_array_equal(engine.scores(unseen), beside.scores(unseen))


@pytest.mark.parametrize("scale", [1e200, 1e6, 1e-300])
def test_the_unit_of_one_output_never_matters_to_another(scale):
    values, labels = make_waves()
    series = read_series(values)
    targets = np.stack([labels + 0.1 * np.arange(24), np.random.default_rng(0).standard_normal(24)], axis=1)
    scores = []
    for factor in (np.ones(2), np.array([1.0, scale])):
        engine = ClosedForm(SMALL)
        engine.fit(series, encode_values(targets * factor), seed=0)
        scores.append(engine.scores(series) / factor)
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 2, 9, 40])
def test_a_feature_reads_one_to_nine_channels_and_one_more_often_than_any_other_number(channels):
    weights = draw_projection(channels, 4000, RECIPE.most_channels, torch.Generator().manual_seed(0))
    counts = np.bincount((weights != 0).sum(dim=1).numpy(), minlength=2)
    most = min(channels, RECIPE.most_channels)
    assert counts[0] == 0
    assert len(counts) == most + 1
    # Uniform logarithms from 1 to most + 1: the share of n channels is log(1 + 1 / n) / log(most + 1).
    shares = np.log1p(1 / np.arange(1, most + 1)) / np.log(most + 1)
    np.testing.assert_allclose(counts[1:] / 4000, shares, atol=5 * 0.5 / np.sqrt(4000))  # five deviations and more
    read = (weights != 0).float().mean(dim=0)  # every channel as often as any other
    assert (read - read.mean()).abs().max() < 5 * 0.5 / np.sqrt(4000)
