import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer, LearnError, read_frame
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

ESTIMATORS = [AlphabetClassifier, AlphabetRegressor, AlphabetTransformer]


def waves(count=18, length=12, channels=2, classes=3, seed=0):
    """Noisy sines (n, channels, time), and which of as many frequencies each has."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    phase = draw.uniform(0, 2 * np.pi, (count, channels, 1))
    angle = (0.4 + 0.6 * labels[:, None, None]) * np.arange(length)
    return np.sin(angle + phase) + 0.1 * draw.normal(size=(count, channels, length)), labels


X, Y = waves()
NAMES = np.array(["low", "middle", "high"])[Y]
FLAT = X[:, 0]  # a matrix (n, time)
TIMES = np.cumsum(np.random.default_rng(1).uniform(0.5, 2.0, (18, 12)), axis=1)

DATES = np.datetime64("2026-01-01") + np.arange(12) * np.timedelta64(1, "h")


@pytest.fixture(scope="module")
def classifier():
    return AlphabetClassifier(random_state=0).fit(X, NAMES)


@pytest.fixture(scope="module")
def on_matrix():
    return AlphabetClassifier(random_state=0).fit(FLAT, Y)


@pytest.fixture(scope="module")
def timed():
    return AlphabetClassifier(random_state=0).fit(X, Y, times=TIMES)


@pytest.fixture(scope="module")
def dated():
    return AlphabetClassifier(random_state=0).fit(X, Y, times=DATES)


@pytest.fixture(scope="module")
def transformer():
    return AlphabetTransformer(random_state=0).fit(X)


def replaced(array, place, value):
    array = array.astype(object if value is None or isinstance(value, str) else float)
    array[place] = value
    return array


# What users get wrong with X, y or a parameter of fit: what is passed, and words that the sentence must hold.
MISTAKES_IN_FIT = {
    "time first": (lambda: (np.moveaxis(X, 0, 2), Y), {}, "Axis 2", "np.moveaxis(X, 2, 0)"),
    "series last": (lambda: (FLAT.T, Y), {}, "Axis 1", "axes look swapped"),
    "fewer labels than series": (lambda: (X, Y[:-1]), {}, "18 series", "17 targets", "one target per series"),
    "a label is None": (lambda: (X, replaced(NAMES, 4, None)), {}, "series 4", "without a label"),
    "a label is NaN": (lambda: (X, replaced(Y, 4, np.nan)), {}, "series 4", "without a label"),
    "no labels": (lambda: (X, None), {}, "target y is None", "one target per series"),
    "labels of two types": (lambda: (X, [*Y[:-1], "a"]), {}, "mixes", "one type"),
    "values for labels": (lambda: (X, Y + 0.5), {}, "continuous", "use a regressor"),
    "one class": (lambda: (X, np.zeros(18)), {}, "only one class", "add another class"),
    "a table that is not of 0 and 1": (lambda: (X, np.stack([Y, Y], 1)), {}, "series 2", "label 0", "write 1 where"),
    "a series all missing": (lambda: (replaced(X, 3, np.nan), Y), {}, "series 3", "no observed value", "leave it out"),
    "an infinite value": (
        lambda: (replaced(X, (2, 1, 4), np.inf), Y),
        {},
        "infinite",
        "series 2, channel 1, position 4",
        "write NaN",
    ),
    "a number too large": (lambda: (replaced(X, (2, 1, 4), 1e300), Y), {}, "too large", "series 2", "rescale"),
    "one series alone": (lambda: (FLAT[0], Y[:1]), {}, "1D array", "x.reshape(1, 1, -1)"),
    "an integer beyond float64": (lambda: ([*X[:-1].tolist(), [[10**400] * 12] * 2], Y), {}, "series 17", "rescale"),
    "labels as one text": (lambda: (X, "abc"), {}, "'abc'", "one target per series"),
    "an empty row": (lambda: ([[], [1.0]], [0, 1]), {}, "series 0 is empty", "leave it out"),
    "four axes": (lambda: (X[None], Y), {}, "4 axes", "(n, channels, time)"),
    "no series": (lambda: ([], []), {}, "no series"),
    "an empty series": (lambda: ([*X[:-1], np.empty((2, 0))], Y), {}, "series 17 is empty", "leave it out"),
    "channels of two lengths": (lambda: ([*X[:-1], [[1.0, 2.0], [1.0]]], Y), {}, "series 17", "same number"),
    "another number of channels": (lambda: ([*X[:-1], X[-1, :1, :9]], Y), {}, "series 17 has 1", "NaN for those"),
    "text": (lambda: (X.astype(str), Y), {}, "text", "convert it to numbers"),
    "complex numbers": (lambda: (X * 1j, Y), {}, "Complex data not supported", "real and imaginary channels"),
    "sparse": (lambda: (scipy.sparse.csr_array(FLAT), Y), {}, "sparse", ".toarray()"),
    "times of another length": (lambda: (X, Y), {"times": np.arange(5)}, "(5,)", "(12,)"),
    "times that go back": (lambda: (X, Y), {"times": -np.arange(12)}, "series 0 goes back at position 1", "sort"),
    "an unknown time": (lambda: (X, Y), {"times": [np.nan] * 12}, "series 0 is nan at position 0", "leave out"),
    "a negative weight": (lambda: (X, Y), {"sample_weight": -np.ones(18)}, "-1.0 for series 0", "not negative"),
    "all weights zero": (lambda: (X, Y), {"sample_weight": np.zeros(18)}, "zero for all series", "positive"),
    "a weight too few": (lambda: (X, Y), {"sample_weight": np.ones(17)}, "(17,)", "18 series", "one weight each"),
    "one class has all weight": (lambda: (X, Y), {"sample_weight": Y == 1}, "only one class", "add another class"),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_FIT)
def test_a_mistake_in_fit_gets_one_sentence(mistake):
    build, given, *words = MISTAKES_IN_FIT[mistake]
    data, y = build()
    with pytest.raises(LearnError) as caught:
        AlphabetClassifier().fit(data, y, **given)
    assert_one_sentence(str(caught.value), words)


def assert_one_sentence(message, words):
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 400


# The same for parameters.
MISTAKES_IN_PARAMETERS = {
    "method": ({"method": "closed"}, Y, "'closed'", "'closed_form' or 'trained'"),
    "class_weight": ({"class_weight": "equal"}, Y, "'equal'", "'balanced'"),
    "class_weight with labels": ({"class_weight": {0: 2.0}}, np.eye(3)[Y], "several labels", "sample_weight="),
    "a negative class_weight": ({"class_weight": {0: -2.0}}, Y, "class_weight is -2.0 for class 0", "not negative"),
    "a class_weight that is text": ({"class_weight": {0: "heavy"}}, Y, "'heavy' for class 0", "a weight is finite"),
    "class_weight of an unknown class": ({"class_weight": {"zero": 3}}, Y, "'zero'", "0, 1, 2", "spelling and type"),
    "class_weight as an array": ({"class_weight": np.ones(2)}, Y, "array([1., 1.])", "'balanced'"),
    "random_state": ({"random_state": np.random.default_rng(0)}, Y, "random_state is Generator", "pass an int"),
    "budget_seconds": ({"method": "trained", "budget_seconds": "a"}, Y, "budget_seconds is 'a'", "positive number"),
    "epochs": ({"method": "trained", "epochs": 0}, Y, "epochs is 0", "positive integer"),
    "sizes": ({"method": "trained", "sizes": [(4, 4)]}, Y, "(4, 4)", "2 * modes <= width"),
    "sizes without a list": ({"method": "trained", "sizes": (32, 8)}, Y, "(32, 8)", "list of pairs"),
    "sizes of one number": ({"method": "trained", "sizes": [(4,)]}, Y, "[(4,)]", "list of pairs"),
    "sizes as a number": ({"method": "trained", "sizes": 5}, Y, "sizes is 5", "list of pairs"),
    "sizes that are no integers": ({"method": "trained", "sizes": [(32.5, 8)]}, Y, "32.5", "integers"),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_PARAMETERS)
def test_a_mistake_in_a_parameter_gets_one_sentence(mistake):
    parameters, y, *words = MISTAKES_IN_PARAMETERS[mistake]
    with pytest.raises(LearnError) as caught:
        AlphabetClassifier(**parameters).fit(X, y)
    assert_one_sentence(str(caught.value), words)


# What users get wrong with a fitted model.
MISTAKES_IN_PREDICT = {
    "fewer channels": ("classifier", lambda: X[:, :1], {}, "1 channels", "fitted on 2", "NaN for channels"),
    "axes swapped": ("classifier", lambda: X.transpose(0, 2, 1), {}, "axes look swapped", "X.transpose(0, 2, 1)"),
    "axes swapped in a list": ("classifier", lambda: [x.T for x in X], {}, "axes look swapped", "[x.T for x in X]"),
    "another width": ("on_matrix", lambda: FLAT[:, :9], {}, "9 features", "expecting 12", "X[:, None, :]"),
    "another width in a list": ("on_matrix", lambda: FLAT[:, :9].tolist(), {}, "9 features", "expecting 12"),
    "times left out": ("timed", lambda: X, {}, "fitted with times=", "same unit"),
    "times added": ("classifier", lambda: X, {"times": TIMES}, "fitted without", "leave it out"),
    "dates for numbers": ("timed", lambda: X, {"times": DATES}, "holds dates", "fitted on numbers", "seconds"),
    "numbers for dates": ("dated", lambda: X, {"times": TIMES}, "holds numbers", "fitted on dates"),
    "all missing": ("classifier", lambda: replaced(X, 3, np.nan), {}, "series 3", "no observed value"),
    "infinite": ("classifier", lambda: replaced(X, (2, 0, 1), -np.inf), {}, "series 2, channel 0, position 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_PREDICT)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_a_mistake_in_predict_gets_one_sentence(mistake, method, request):
    fixture, build, given, *words = MISTAKES_IN_PREDICT[mistake]
    with pytest.raises(LearnError) as caught:
        getattr(request.getfixturevalue(fixture), method)(build(), **given)
    assert_one_sentence(str(caught.value), words)


# What is allowed but most likely a mistake.
SUSPICIONS = {
    "time and channels swapped": (lambda: (X.transpose(0, 2, 1)[:, :, :1], Y), "12 channels of only 1", "swapped"),
    "a constant channel": (lambda: (replaced(X, (slice(None), 1), 5.0), Y), "Channel 1", "5 in every", "leave it out"),
    "constant series": (lambda: (np.zeros((18, 3, 9)), Y), "Channel 0", "2 further channels", "check how"),
    "a channel that is never observed": (
        lambda: (replaced(X, (slice(None), 1), np.nan), Y),
        "Channel 1",
        "never observed",
    ),
    "one series per class": (lambda: (X[:3], NAMES[:3]), "single series of class 'high'", "3 such classes of 3"),
    "frames with time in their rows": (
        lambda: ([pd.DataFrame(x.T) for x in X], Y),
        "12 rows and 2 columns",
        "[x.T for x in X]",
    ),
    "a channel of tiny numbers": (lambda: (replaced(X, slice(None), X * 1e-42), Y), "Channel 0", "1 further"),
    "one series in a list": (lambda: (X[:5], list("abcab")), "single series of class 'c'", "1 such classes of 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("suspicion", SUSPICIONS)
def test_a_suspicion_is_said_in_one_sentence_and_the_fit_goes_on(suspicion):
    build, *words = SUSPICIONS[suspicion]
    data, y = build()
    with pytest.warns(UserWarning, match=re.escape(words[0])) as caught:
        fitted = AlphabetClassifier(random_state=0).fit(data, y)
    assert len(caught) == 1
    assert_one_sentence(str(caught[0].message), words)
    assert np.isfinite(fitted.predict_proba(data)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "suspicion",
    ["time and channels swapped", "a constant channel", "one series per class", "frames with time in their rows"],
)
def test_a_warning_points_at_the_line_that_called_fit(suspicion):
    data, y = SUSPICIONS[suspicion][0]()
    with pytest.warns(UserWarning, match="leave|pass") as caught:
        AlphabetClassifier(random_state=0).fit(data, y)
    assert caught[0].filename == __file__


def test_unseen_labels_in_score_are_errors_and_said(classifier):
    y = NAMES.astype(object)
    y[:6] = "unheard of"
    with pytest.warns(UserWarning, match="not fitted on, such as 'unheard of'") as caught:
        score = classifier.score(X, y)
    assert_one_sentence(str(caught[0].message), ["6 of 18 series", "count as errors", "classes_"])
    assert score == pytest.approx(classifier.score(X[6:], NAMES[6:]) * 12 / 18)
    with pytest.warns(UserWarning, match="18 of 18"):
        assert classifier.score(X, Y) == 0.0


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


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = AlphabetClassifier(random_state=0).fit(FLAT, Y)
    before, scores = dict(vars(model)), model.decision_function(FLAT)
    model.method = "unheard of"
    with pytest.raises(LearnError, match="method is"):
        model.fit(pd.DataFrame(FLAT[:, :9]).add_prefix("t"), Y, times=np.arange(9.0))
    assert {**vars(model), "method": "closed_form"} == before
    assert np.array_equal(model.decision_function(FLAT), scores)


def test_a_second_fit_forgets_what_the_first_found_out():
    frame = pd.DataFrame(FLAT).add_prefix("t")
    model = AlphabetClassifier(random_state=0).fit(frame, Y).prune(5, frame, Y)
    assert {"cost_", "feature_names_in_"} <= set(vars(model))
    assert not {"cost_", "feature_names_in_"} & set(vars(model.fit(FLAT, Y)))
