import pickle
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, TrainingStep, attribute
from alphabet_learn.errors import LearnError
from alphabet_learn.problem import Problem
from alphabet_learn.series import Series
from alphabet_learn.trained_fitting import WeightedCpuTrainer
from alphabet_learn.trained_session import choose_validation
from alphabet_testing.learn.trained import classify, fitted, jittered, ragged, regress, waves
from hypothesis import given


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_frequencies_are_told_apart(classes):
    series, labels = waves(60, 40, classes)
    engine = fitted(series, classify(labels), sizes=((16, 4), (32, 8)), epochs=60, recipe="C")
    test, expected = waves(90, 40, classes, seed=1)
    assert (engine.probabilities(test).argmax(axis=1) == expected).mean() >= 0.95


@pytest.mark.slow
def test_a_level_is_predicted_in_the_units_of_the_target():
    series, labels = waves(60, 30)
    engine = fitted(series, regress(1000.0 + 50.0 * labels[:, None].astype(float)), epochs=60, recipe="C")
    assert np.abs(engine.scores(series)[:, 0] - 1000.0 - 50.0 * labels).mean() < 10.0


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.floats(0.05, 0.9), st.integers(0, 9))
def test_every_class_of_two_series_or_more_is_on_both_sides_of_the_split(labels, share, seed):
    labels = np.unique(labels, return_inverse=True)[1]
    if labels.max() == 0:
        return
    held_out = choose_validation(classify(labels), share, seed)
    counts = np.bincount(labels)
    if len(labels) < 5 or (counts > 1).sum() < 2:
        assert held_out is None
        return
    assert (np.bincount(labels[~held_out], minlength=len(counts)) >= 1).all()
    assert ((np.bincount(labels[held_out], minlength=len(counts)) >= 1) == (counts > 1)).all()


@pytest.mark.parametrize(("count", "set_aside"), [(4, None), (5, 1), (100, 20)])
def test_a_regression_sets_a_random_share_aside(count, set_aside):
    folds = [choose_validation(regress(np.zeros((count, 1))), 0.2, seed) for seed in (0, 0, 1)]
    if set_aside is None:
        assert folds == [None] * 3
    else:
        assert [fold.sum() for fold in folds] == [set_aside] * 3
        assert np.array_equal(folds[0], folds[1])


def test_few_series_are_trained_without_validation_and_their_logits_stay_as_they_are():
    series, labels = waves(4)
    engine = fitted(series, classify(labels), sizes=((8, 2), (16, 4)))
    member = engine.members[0]
    assert engine.size == (8, 2)
    assert (member.run, len(member.held_out)) == (4, 0)
    assert np.isnan(member.validation_loss)
    scores = engine.scores(series)
    assert engine.probabilities(series)[:, 1:] == pytest.approx(1.0 / (1.0 + np.exp(-scores)))


LOSSES = {
    "cross_entropy": lambda k: torch.nn.functional.one_hot(torch.arange(6) % k, k).float(),
    "multilabel": lambda k: (torch.arange(6 * k).reshape(6, k) % 3 == 0).float(),
    "mse": lambda k: torch.linspace(-1, 1, 6 * k).reshape(6, k),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_two_is_the_same_as_two_copies_of_the_series(loss):
    """By the fused kernels, against the reference's plain loss over copies: the loss and every gradient."""
    series, _ = waves(6, 15)
    repeats = torch.tensor([1, 2, 1, 3, 1, 1])
    targets, weights = LOSSES[loss](3), (repeats / repeats.float().mean()).unsqueeze(1)
    torch.manual_seed(0)
    model = Alphabet(AlphabetConfig(channels=1, width=8, modes=2, outputs=3))
    copy = pickle.loads(pickle.dumps(model))

    weighted = WeightedCpuTrainer(model, loss=loss)
    carried = targets * weights if loss == "cross_entropy" else torch.cat([targets, weights], dim=1)
    assert weighted.path(series.tensor()) == "fused"
    got = weighted.accumulate(series.tensor(), carried, 1.0)

    repeated = targets.repeat_interleave(repeats, dim=0)
    plain = TrainingStep(copy, loss=loss)
    expected = plain.accumulate(
        series.tensor().repeat_interleave(repeats, dim=0),
        repeated.argmax(dim=1) if loss == "cross_entropy" else repeated,
        1.0,
    )
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    for mine, other in zip(model.parameters(), copy.parameters(), strict=True):
        # Float32 gradients of sums of some hundred terms, by other orders of summation.
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("problem", [classify, lambda y, w: regress(y[:, None].astype(float), w)])
def test_a_series_of_weight_0_is_as_if_it_were_not_there(problem):
    series, labels = waves(24)
    weights = np.where(np.arange(24) < 20, 1.2, 0.0)
    engine = fitted(series, problem(labels, weights))
    without = fitted(series.take(np.arange(20)), problem(labels[:20], weights[:20]))
    assert np.array_equal(engine.scores(series), without.scores(series))


@pytest.mark.parametrize("kind", ["classification", "multilabel", "regression"])
def test_the_loss_that_stops_training_counts_weights(kind):
    series, labels = waves(40)
    draw = np.random.default_rng(4)
    weights = draw.uniform(0.1, 5.0, 40)
    targets = {
        "classification": labels[:, None].astype(np.float64),
        "multilabel": (draw.random((40, 3)) < 0.5).astype(np.float64),
        "regression": draw.normal(size=(40, 2)) * [1.0, 50.0],
    }[kind]
    engine = fitted(series, Problem(kind, targets, weights / weights.mean()))
    member = engine.members[0]
    wanted, weight = targets[member.held_out], weights[member.held_out]
    if kind == "classification":
        wrong = np.where(wanted > 0, -1, 1) * np.diff(member.outputs, axis=1)
        losses = np.logaddexp(0, wrong)
    elif kind == "multilabel":
        losses = np.logaddexp(0, np.where(wanted > 0, -1, 1) * member.outputs)
    else:
        losses = (member.outputs - (wanted - engine.target_mean) / engine.target_deviation) ** 2
    expected = np.average(losses.mean(axis=1), weights=weight)
    # Targets and weights are kept in float32.
    assert member.validation_loss == pytest.approx(expected, rel=1e-5)
    assert member.validation_loss != pytest.approx(losses.mean(), rel=1e-3)


def test_weights_change_the_model():
    series, labels = waves()
    weights = np.where(labels == 1, 1.9, 0.1)
    heavy, plain = fitted(series, classify(labels, weights)), fitted(series, classify(labels))
    assert heavy.scores(series).mean() > plain.scores(series).mean()


def test_an_ensemble_averages_the_logits_of_members_with_folds_of_their_own():
    series, labels = waves(40)
    engine = fitted(series, classify(labels), ensemble=3)
    assert len(engine.models) == len(engine.members) == len(engine.baseline) == 3
    assert len({tuple(member.held_out) for member in engine.members}) > 1
    alone = []
    for model in engine.models:
        member = pickle.loads(pickle.dumps(engine))
        member.models = [model]
        alone.append(member.scores(series))
    assert engine.scores(series) == pytest.approx(np.mean(alone, axis=0), abs=1e-6)


@pytest.mark.parametrize("ensemble", [1, 2])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_most_probable_class_is_the_one_with_the_highest_score(classes, ensemble):
    series, labels = waves(40, classes=classes)
    engine = fitted(series, classify(labels), ensemble=ensemble)
    scores, probabilities = engine.scores(series), engine.probabilities(series)
    assert scores.dtype == probabilities.dtype == np.float64
    assert scores.shape == (40, 1 if classes == 2 else classes)
    assert probabilities.shape == (40, classes)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    highest = scores[:, 0] > 0 if classes == 2 else scores.argmax(axis=1)
    assert np.array_equal(probabilities.argmax(axis=1), highest)


def test_several_labels_have_a_probability_each():
    series, labels = waves(30)
    targets = np.stack((labels, 1 - labels, np.zeros(30)), axis=1).astype(float)
    engine = fitted(series, Problem("multilabel", targets, np.ones(30)))
    assert engine.scores(series).shape == (30, 3)
    probabilities = engine.probabilities(series)
    assert np.array_equal(probabilities > 0.5, engine.scores(series) > 0)


@pytest.mark.parametrize("targets", [1, 2])
def test_a_regression_follows_its_targets_unit(targets):
    series, labels = waves(20)
    values = np.random.default_rng(0).normal(size=(20, targets)) + labels[:, None]
    plain, scaled = fitted(series, regress(values)), fitted(series, regress(1024.0 * values - 512.0))
    assert scaled.scores(series) == pytest.approx(1024.0 * plain.scores(series) - 512.0, rel=1e-3, abs=1.0)
    with pytest.raises(LearnError, match="no probabilities"):
        plain.probabilities(series)


@pytest.mark.parametrize("constant", [7.1, 7.1e200])
def test_constant_targets_are_predicted_as_they_are(constant):
    series, _ = waves(12)
    varying = np.random.default_rng(0).standard_normal(12)
    scores = fitted(series, regress(np.stack([np.full(12, constant), varying], axis=1))).scores(series)
    assert scores[:, 0] == pytest.approx(constant, rel=1e-12)
    assert scores[:, 1].std() > 0


@pytest.mark.parametrize("scale", [1e200, 1e-300])
def test_targets_of_any_magnitude_are_predicted(scale):
    series, _ = waves(12)
    targets = np.random.default_rng(0).standard_normal((12, 1))
    plain, scaled = fitted(series, regress(targets)), fitted(series, regress(scale * targets))
    assert scaled.scores(series) / scale == pytest.approx(plain.scores(series), rel=1e-3, abs=1e-3)


def test_padding_never_changes_scores():
    series, labels = waves(24)
    lengths = np.where(np.arange(24) % 3 == 0, 12, 20)
    short = ragged(series, lengths)
    engine = fitted(short, classify(labels))
    longer = Series(np.pad(short.values, ((0, 0), (0, 9), (0, 0))), valid=np.pad(short.valid, ((0, 0), (0, 9))))
    alone = engine.scores(Series(short.values[:1, :12]))
    assert engine.scores(longer) == pytest.approx(engine.scores(short), abs=1e-5)
    assert engine.scores(short)[:1] == pytest.approx(alone, abs=1e-5)


def test_missing_values_are_never_read():
    series, labels = waves(24, channels=2)
    observed = np.random.default_rng(1).random(series.values.shape) < 0.7
    observed[:, 0] = True
    hidden = [Series(np.where(observed, series.values, np.float32(junk)), observed) for junk in (0.0, 1e6)]
    first, second = (fitted(part, classify(labels)) for part in hidden)
    assert np.array_equal(first.scores(hidden[0]), second.scores(hidden[1]))


def test_timestamps_of_a_regular_grid_are_the_same_as_none():
    series, labels = waves(24)
    clock = np.broadcast_to(np.arange(20) * 0.25, (24, 20)).copy()
    timed = Series(series.values, times=clock)
    engine, plain = fitted(timed, classify(labels)), fitted(series, classify(labels))
    assert engine.time_unit == 0.25
    assert np.array_equal(engine.scores(timed), plain.scores(series))


@pytest.mark.slow
def test_the_unit_of_time_never_matters():
    series, labels = waves(20, 10)
    timed = jittered(series)
    hours = Series(timed.values, times=timed.times * 4096.0)  # a power of two, so that no bit is rounded
    engine, other = fitted(timed, classify(labels)), fitted(hours, classify(labels))
    assert other.time_unit == 4096.0 * engine.time_unit
    assert np.array_equal(engine.scores(timed), other.scores(hours))


def test_a_regular_series_among_irregular_ones_scores_as_it_does_alone():
    series, labels = waves(20, 10)
    engine = fitted(jittered(series), classify(labels))
    times = np.vstack((np.arange(10) * engine.time_unit, jittered(series).times[1:]))
    together = engine.scores(Series(series.values, times=times))
    assert np.array_equal(together[:1], engine.scores(Series(series.values[:1], times=times[:1])))


def test_one_token_is_enough():
    series, labels = waves(12, 1)
    assert np.isfinite(fitted(series, classify(labels)).scores(series)).all()


def test_contributions_are_measured_from_the_training_mean_and_sum_to_the_score():
    series, labels = waves(24)
    engine = fitted(series, classify(labels))
    model, values = engine.models[0], engine.scaler(series).tensor()
    descriptor = model.describe(values)
    torch.testing.assert_close(descriptor.mean(dim=0), engine.baseline[0], rtol=1e-4, atol=1e-5)
    ones = torch.ones(24, dtype=torch.int64)
    parts = attribute(model, descriptor, engine.baseline[0], winner=ones, runner_up=1 - ones)
    assert engine.scores(series)[:, 0] == pytest.approx(parts.margin.numpy(), abs=1e-4)


def test_pickled_and_shared_by_threads_it_scores_the_same():
    series, labels = waves(24)
    engine = fitted(series, classify(labels))
    expected = engine.scores(series)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(engine.scores, [series] * 8):
            assert np.array_equal(found, expected)
    assert np.array_equal(pickle.loads(pickle.dumps(engine)).scores(series), expected)
