import hypothesis.strategies as st
import numpy as np
import pytest
from alphabet_learn.calibration import BOUNDS, START, Calibration, fit_calibration
from alphabet_learn.errors import LearnError
from alphabet_learn.problem import Problem
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from scipy.special import expit, softmax

SCORES = st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, 1e-17, -1e-17, 5e-324, 0.1, 0.1 + 1e-17])
SCALES = st.floats(*BOUNDS)


def one_hot(classes, count):
    return np.eye(count)[classes]


def log_likelihood(probabilities, targets, weights):
    """Of true classes; for columns of 0 and 1 that of both outcomes."""
    return float(weights @ np.log(np.maximum((probabilities * targets).sum(1), 1e-300)))


def simulate(kind, scale, seed, count=4000):
    """Scores and classes drawn with the probabilities that the scale gives."""
    rng = np.random.default_rng(seed)
    if kind == "binary":
        scores = rng.normal(0, 0.7, (count, 1))
        return scores, Problem("classification", (rng.random((count, 1)) < expit(scale * scores)) * 1.0, np.ones(count))
    if kind == "multilabel":
        scores = rng.normal(0, 0.7, (count, 2))
        return scores, Problem("multilabel", (rng.random((count, 2)) < expit(scale * scores)) * 1.0, np.ones(count))
    scores = rng.normal(0, 0.7, (count, 4))
    drawn = softmax(scale * scores, axis=1).cumsum(1)
    classes = np.minimum((rng.random((count, 1)) > drawn).sum(1), 3)
    return scores, Problem("classification", one_hot(classes, 4), np.ones(count))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("scale", [0.5, 3.0, 12.0])
def test_the_scale_of_simulated_scores_is_recovered(kind, scale):
    # The deviation of the estimate is about scale / sqrt(count * information), below 6 % for 4,000 draws.
    calibration = fit_calibration(*simulate(kind, scale, seed=1))
    assert calibration.form == kind
    np.testing.assert_allclose(calibration.scale, scale, rtol=0.25)


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize("scale", [0.3, 2.0, 9.0])
def test_the_likelihood_is_no_worse_than_uncalibrated(kind, scale):
    scores, problem = simulate(kind, scale, seed=2, count=300)
    calibration = fit_calibration(scores, problem)
    targets = np.hstack((1 - problem.targets, problem.targets)) if kind == "binary" else problem.targets
    raw = Calibration(calibration.form, np.array([START])).probabilities(scores)
    fitted = calibration.probabilities(scores)
    # Smoothed targets and the hold cost less than one series' worth.
    assert log_likelihood(fitted, targets, problem.weights) > log_likelihood(raw, targets, problem.weights) - 1


@settings(max_examples=80, deadline=None)
@given(scores=arrays(np.float64, (6, 3), elements=SCORES), scale=SCALES)
def test_the_most_probable_class_has_the_highest_score(scores, scale):
    probabilities = Calibration("multiclass", np.array([scale])).probabilities(scores)
    np.testing.assert_array_equal(probabilities.argmax(1), scores.argmax(1))
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=0, atol=1e-14)
    assert (probabilities >= 0).all()


@settings(max_examples=80, deadline=None)
@given(scores=arrays(np.float64, (8, 1), elements=SCORES), scale=SCALES)
def test_a_positive_score_means_the_second_class_is_more_probable(scores, scale):
    probabilities = Calibration("binary", np.array([scale])).probabilities(scores)
    np.testing.assert_array_equal(probabilities.argmax(1), scores[:, 0] > 0)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=0, atol=1e-14)
    order = np.argsort(scores[:, 0])
    assert (np.diff(probabilities[order, 1]) >= 0).all()


@settings(max_examples=80, deadline=None)
@given(scores=arrays(np.float64, (6, 2), elements=SCORES), scale=SCALES)
def test_a_label_is_more_probable_than_not_where_its_score_is_positive(scores, scale):
    probabilities = Calibration("multilabel", np.array([scale, START])).probabilities(scores)
    np.testing.assert_array_equal(probabilities > 0.5, scores > 0)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), outputs=st.sampled_from([1, 3]), rows=st.integers(1, 8))
def test_any_scores_give_a_finite_scale(data, outputs, rows):
    scores = data.draw(arrays(np.float64, (rows, outputs), elements=SCORES))
    classes = data.draw(arrays(np.int64, rows, elements=st.integers(0, max(1, outputs - 1))))
    targets = classes[:, None] * 1.0 if outputs == 1 else one_hot(classes, outputs)
    calibration = fit_calibration(scores, Problem("classification", targets, np.ones(rows)))
    assert ((calibration.scale >= BOUNDS[0]) & (calibration.scale <= BOUNDS[1])).all()
    assert np.isfinite(calibration.probabilities(scores)).all()


def test_separated_scores_stay_modest_and_grow_surer_with_more_series():
    def probability(count):
        truth = np.arange(count) % 2
        problem = Problem("classification", truth[:, None] * 1.0, np.ones(count))
        scores = np.where(truth, 1.0, -1.0)[:, None]
        return fit_calibration(scores, problem).probabilities(scores)[:, 1].max()

    # All n scores of a class are alike, so the fitted probability is the smoothed target (n + 1) / (n + 2).
    np.testing.assert_allclose([probability(4), probability(40)], [3 / 4, 21 / 22], rtol=5e-3)


def test_scores_without_information_give_even_probabilities():
    rng = np.random.default_rng(3)
    truth = (rng.random(200) < 0.5) * 1.0
    against = np.where(truth, -1.0, 1.0)[:, None] + rng.normal(size=(200, 1))
    calibration = fit_calibration(against, Problem("classification", truth[:, None], np.ones(200)))
    np.testing.assert_allclose(calibration.probabilities(against), 0.5, atol=0.01)
    silent = fit_calibration(np.zeros((200, 1)), Problem("classification", truth[:, None], np.ones(200)))
    np.testing.assert_allclose(silent.scale, START)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_weight_of_zero_leaves_a_series_out(kind):
    scores, problem = simulate(kind, 2.0, seed=5, count=60)
    weights = np.repeat([1.0, 0.0], 30)
    whole = fit_calibration(scores, Problem(problem.kind, problem.targets, weights))
    half = fit_calibration(scores[:30], Problem(problem.kind, problem.targets[:30], np.ones(30)))
    np.testing.assert_allclose(whole.scale, half.scale, rtol=1e-6)


def test_regression_has_no_probabilities():
    with pytest.raises(LearnError, match="no probabilities"):
        fit_calibration(np.zeros((2, 1)), Problem("regression", np.zeros((2, 1)), np.ones(2)))
