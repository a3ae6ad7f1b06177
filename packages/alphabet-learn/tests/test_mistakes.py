"""What users get wrong, and what they are told."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from alphabet_learn import AlphabetClassifier, AlphabetTransformer, LearnError
from alphabet_testing.learn.waves import DATES, FLAT, NAMES, TIMES, X, Y
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


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
    "an offset that float32 does not resolve": (
        "classifier",
        lambda: X + np.array([0.0, 1e9])[:, None],
        {},
        "channel 1 of X",
        "around 1e+09",
        "subtract an offset",
    ),
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


@pytest.mark.slow
@pytest.mark.parametrize("suspicion", ["time and channels swapped", "a constant channel"])
@pytest.mark.parametrize(
    "call",
    [
        lambda data: AlphabetTransformer(random_state=0).fit_transform(data),
        lambda data: make_pipeline(AlphabetTransformer(random_state=0), StandardScaler()).fit(data),
    ],
    ids=["fit_transform", "pipeline"],
)
def test_a_warning_points_at_the_users_line_through_whatever_lies_between(suspicion, call):
    data, _ = SUSPICIONS[suspicion][0]()
    with pytest.warns(UserWarning, match="leave|pass") as caught:
        call(data)
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


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = AlphabetClassifier(random_state=0).fit(FLAT, Y)
    before, scores = dict(vars(model)), model.decision_function(FLAT)
    model.method = "unheard of"
    with pytest.raises(LearnError, match="method is"):
        model.fit(pd.DataFrame(FLAT[:, :9]).add_prefix("t"), Y, times=np.arange(9.0))
    assert {**vars(model), "method": "closed_form"} == before
    assert np.array_equal(model.decision_function(FLAT), scores)
