import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer, read_frame
from alphabet_testing.learn.waves import DATES, FLAT, NAMES, TIMES, X, Y
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

ESTIMATORS = [AlphabetClassifier, AlphabetRegressor, AlphabetTransformer]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_unfitted_estimators_say_so(estimator):
    method = "transform" if estimator is AlphabetTransformer else "predict"
    with pytest.raises(NotFittedError):
        getattr(estimator(), method)(X)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_series_shorter_than_a_lift_are_fitted_and_predicted(length):
    short = X[:, :, :length]
    fitted = AlphabetClassifier(random_state=0).fit(short, NAMES)
    assert fitted.length_in_ == length
    assert np.isfinite(fitted.predict_proba(X)).all()
    assert AlphabetRegressor(random_state=0).fit(short, Y).predict(short).shape == (18,)
    assert np.isfinite(AlphabetTransformer(random_state=0).fit_transform(short)).all()


def test_lists_and_arrays_with_channels_may_have_other_lengths(on_matrix):
    expected = on_matrix.decision_function([series[:9] for series in FLAT])
    np.testing.assert_array_equal(on_matrix.decision_function(FLAT[:, None, :9]), expected)
    padded = FLAT.copy()
    padded[:, 9:] = np.nan
    np.testing.assert_allclose(on_matrix.decision_function(padded), expected, rtol=0, atol=1e-9)


CONTAINERS = {
    "channels": lambda: FLAT[:, None, :],
    "list": lambda: list(FLAT),
    "list of channels": lambda: list(FLAT[:, None, :]),
    "nested lists": lambda: FLAT.tolist(),
    "torch": lambda: torch.from_numpy(FLAT),
    "pandas": lambda: pd.DataFrame(FLAT),
    "objects": lambda: FLAT.astype(object),
    "Fortran order": lambda: np.asfortranarray(FLAT),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_scores(container, on_matrix):
    np.testing.assert_array_equal(
        on_matrix.decision_function(CONTAINERS[container]()), on_matrix.decision_function(FLAT)
    )


@pytest.mark.slow
def test_a_long_frame_gives_the_same_scores(timed):
    series, tokens = np.divmod(np.arange(18 * 12), 12)
    frame = pd.DataFrame({"id": series, "at": TIMES.ravel(), "a": X[:, 0].ravel(), "b": X[:, 1].ravel()})
    frame["label"] = NAMES[series]
    shuffled = frame.sample(frac=1.0, random_state=0)
    read = read_frame(shuffled, id="id", time="at", label="label")
    assert tokens.max() == 11
    expected = timed.decision_function(X, times=TIMES)[read.ids]
    np.testing.assert_allclose(timed.decision_function(read.X, times=read.times), expected, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [NAMES, Y, Y == 1, Y.astype(float), pd.Series(NAMES, dtype="category")])
def test_labels_come_back_as_they_were(labels):
    predicted = AlphabetClassifier(random_state=0).fit(X, labels).predict(X)
    assert predicted.dtype.kind == np.asarray(labels).dtype.kind
    np.testing.assert_array_equal(predicted, np.asarray(labels))


def test_the_prediction_has_the_highest_score_and_probability(classifier):
    probabilities, scores = classifier.predict_proba(X), classifier.decision_function(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(axis=1)], classifier.predict(X))
    np.testing.assert_array_equal(classifier.classes_[scores.argmax(axis=1)], classifier.predict(X))
    assert classifier.score(X, NAMES) == 1.0


@pytest.mark.slow
def test_classes_are_balanced_by_default():
    rows = np.concatenate([np.flatnonzero(Y == 0), np.flatnonzero(Y != 0)[:4]])
    data, y = X[rows], (Y[rows] > 0).astype(int)
    counts = np.bincount(y)
    by_hand = {c: len(y) / (2 * counts[c]) for c in (0, 1)}
    balanced = AlphabetClassifier(random_state=0).fit(data, y).decision_function(X)
    given = AlphabetClassifier(random_state=0, class_weight=by_hand).fit(data, y).decision_function(X)
    as_sample_weight = AlphabetClassifier(random_state=0, class_weight=None).fit(
        data, y, sample_weight=np.array([by_hand[0], by_hand[1]])[y]
    )
    unweighted = AlphabetClassifier(random_state=0, class_weight=None).fit(data, y).decision_function(X)
    np.testing.assert_allclose(given, balanced, rtol=0, atol=1e-9)
    np.testing.assert_allclose(as_sample_weight.decision_function(X), balanced, rtol=0, atol=1e-9)
    assert np.abs(unweighted - balanced).max() > 1e-3


@pytest.mark.slow
def test_several_labels_at_once():
    table = pd.DataFrame({"fast": Y > 0, "high": Y == 2})
    fitted = AlphabetClassifier(random_state=0).fit(X, table)
    assert (fitted.kind_, fitted.classes_.tolist()) == ("multilabel", ["fast", "high"])
    assert fitted.predict_proba(X).shape == fitted.decision_function(X).shape == (18, 2)
    np.testing.assert_array_equal(fitted.predict(X), table.to_numpy().astype(int))
    assert fitted.score(X, table.to_numpy()) == 1.0


@pytest.mark.slow
def test_regression_predicts_in_the_shape_of_y():
    level = 1.0 + Y
    one = AlphabetRegressor(random_state=0).fit(X, level)
    several = AlphabetRegressor(random_state=0).fit(X, np.stack([level, -level], axis=1))
    assert one.predict(X).shape == (18,)
    np.testing.assert_allclose(several.predict(X) @ [1.0, 1.0], 0.0, atol=1e-9)
    assert one.score(X, level) > 0.9
    assert several.score(X, np.stack([level, -level], axis=1)) > 0.9


@pytest.mark.slow
def test_random_state_decides_everything(classifier):
    scores = classifier.decision_function(X)
    again = clone(classifier).fit(X, NAMES)
    np.testing.assert_array_equal(again.decision_function(X), scores)
    other = AlphabetClassifier(random_state=1).fit(X, NAMES)
    assert not np.array_equal(other.decision_function(X), scores)
    generators = [AlphabetClassifier(random_state=np.random.RandomState(7)).fit(X, NAMES) for _ in range(2)]
    assert generators[0].seed_ == generators[1].seed_


@pytest.mark.slow
def test_the_number_of_threads_changes_rounding_alone(classifier):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with threadpool_limits(1):
            single = clone(classifier).fit(X, NAMES)
        torch.set_num_threads(2)
        double = clone(classifier).fit(X, NAMES)
    finally:
        torch.set_num_threads(before)
    # float64 sums in another order: 1e-16 of standardized coordinates and of a kernel of condition 1e6 at most.
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("fixture", ["classifier", pytest.param("timed", marks=pytest.mark.slow), "transformer"])
def test_pickles_predict_the_same(fixture, request):
    estimator = request.getfixturevalue(fixture)
    given = {"times": TIMES} if fixture == "timed" else {}
    before = pickle.dumps(estimator)
    method = "transform" if fixture == "transformer" else "predict_proba"
    expected = getattr(estimator, method)(X, **given)
    assert pickle.dumps(estimator) == before
    np.testing.assert_array_equal(getattr(pickle.loads(before), method)(X, **given), expected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_survive_cloning(estimator):
    parameters = {"random_state": 3, "verbose": False}
    assert clone(estimator(**parameters)).get_params() == estimator(**parameters).get_params()


@pytest.mark.slow
def test_a_search_runs_over_lists_of_unequal_length():
    series = [x[:, : 8 + i % 5] for i, x in enumerate(X)]
    search = GridSearchCV(AlphabetClassifier(random_state=0), {"class_weight": ["balanced", None]}, cv=2)
    assert search.fit(series, NAMES).best_score_ > 0.5
    trained = AlphabetClassifier("trained", random_state=0, sizes=((8, 2),))
    search = GridSearchCV(trained, {"epochs": np.arange(1, 3)}, cv=2, error_score="raise")
    assert search.fit(series, NAMES).predict(series).shape == (18,)


@pytest.mark.slow
def test_routing_passes_times_through_a_search():
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = AlphabetClassifier(random_state=0).set_fit_request(times=True).set_score_request(times=True)
        scores = cross_val_score(estimator, X, NAMES, cv=2, params={"times": TIMES}, error_score="raise")
        assert scores.mean() > 0.5
        features = AlphabetTransformer(random_state=0).set_fit_request(times=True).set_transform_request(times=True)
        pipeline = make_pipeline(features, RidgeClassifierCV())
        assert pipeline.fit(X, NAMES, times=TIMES).predict(X, times=TIMES).shape == (18,)


@pytest.mark.slow
def test_features_with_a_ridge_classify():
    pipeline = make_pipeline(AlphabetTransformer(random_state=0), RidgeClassifierCV(alphas=np.logspace(-1, 5, 7)))
    assert pipeline.fit(X, NAMES).score(X, NAMES) == 1.0


def test_feature_names_are_distinct_and_say_what_is_measured(transformer):
    names = transformer.get_feature_names_out()
    assert names.shape == (transformer.transform(X).shape[1],)
    assert len(set(names)) == len(names)
    pattern = (
        r"(values|changes|averages of \d), bank \d+, (direct|cascaded) pole \d+, channel \d( and \d)?, "
        r"period [\d.,e+]+, memory [\d.,e+]+, (log energy|lag \d, (real|imaginary) part)"
    )
    assert all(re.fullmatch(pattern, name) for name in names)


@pytest.mark.slow
def test_feature_names_are_in_the_users_unit_of_time():
    def periods(times):
        names = AlphabetTransformer(random_state=0).fit(X, times=times).get_feature_names_out()
        return np.array([float(re.search(r"period ([^ ]+), memory", name)[1].replace(",", "")) for name in names])

    hours, minutes = periods(TIMES), periods(60.0 * TIMES)
    np.testing.assert_allclose(minutes, 60.0 * hours, rtol=0.11)  # names have two digits


def test_features_are_standardized_and_depend_on_their_own_series_alone(transformer):
    features = transformer.transform(X)
    varies = features.std(axis=0) > 0
    np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=1e-4)  # coordinates are float32
    np.testing.assert_allclose(features.std(axis=0)[varies], 1.0, atol=1e-4)
    np.testing.assert_array_equal(transformer.transform(X[5:7]), features[5:7])


@pytest.mark.slow
def test_the_order_of_the_series_does_not_matter(transformer):
    order = np.random.default_rng(0).permutation(18)
    again = clone(transformer).fit(X[order])
    np.testing.assert_allclose(again.transform(X), transformer.transform(X), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_column_of_labels_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning):
        fitted = AlphabetClassifier(random_state=0).fit(X, Y[:, None])
    assert fitted.predict(X).shape == (18,)


@pytest.mark.slow
def test_the_trained_method_has_the_same_face():
    fitted = AlphabetClassifier("trained", random_state=0, sizes=((8, 2),), epochs=3).fit(X, NAMES, times=TIMES)
    assert fitted.predict_proba(X, times=TIMES).shape == (18, 3)
    assert set(fitted.predict(X, times=TIMES)) <= set(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.0 <= fitted.score(X, NAMES, times=TIMES) <= 1.0


def dates_of(count, zone=None):
    return pd.date_range("2026-01-01", periods=count, freq="h", tz=zone)


# Every way to write the same instants, and whether they are dates.
CLOCKS = {
    "numbers": (TIMES, False),
    "a list of numbers": (list(TIMES), False),
    "datetime64": (DATES, True),
    "an index": (dates_of(12), True),
    "a column in a zone": (pd.Series(dates_of(12, "Europe/Paris")), True),
    "datetimes": (dates_of(12).to_pydatetime().tolist(), True),
    "objects": (np.array(dates_of(12).to_pydatetime(), dtype=object), True),
    "a list of arrays": ([DATES] * 18, True),
    "durations": (DATES - DATES[0], True),
    "none": (None, False),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_dates_are_told_from_numbers(clock):
    times, dated = CLOCKS[clock]
    assert AlphabetTransformer()._read_training(X, times)[1]["dated_"] is dated


def test_a_second_fit_forgets_what_the_first_found_out():
    frame = pd.DataFrame(FLAT).add_prefix("t")
    model = AlphabetClassifier(random_state=0).fit(frame, Y).prune(5, frame, Y)
    assert {"cost_", "feature_names_in_"} <= set(vars(model))
    assert not {"cost_", "feature_names_in_"} & set(vars(model.fit(FLAT, Y)))
