"""Streams: at every moment what the estimator predicts for everything so far."""

import numpy as np
import pytest
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, LearnError


def make_series(count=12, channels=2, length=23, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((count, channels, length)).cumsum(axis=2)
    values[rng.random(values.shape) < 0.15] = np.nan
    values[:, :, 5] = np.nan  # a token of which nothing is observed
    values[:, :, [0, -1]] = 1.0
    return values, np.arange(count) % 3


@pytest.mark.parametrize("method", ["closed_form", "trained"])
def test_a_stream_gives_the_whole_pass_at_every_moment(method):
    values, labels = make_series()
    classifier = AlphabetClassifier(method, epochs=2, random_state=0).fit(values, labels)
    stream = classifier.stream()
    for t in range(values.shape[2]):
        stream.push(values[0, :, t])
        if t in (0, 1, 2, 3, 4, 5, 6, 9, 22):
            whole = classifier.predict_proba([values[0][:, : t + 1]])[0]
            np.testing.assert_allclose(stream.predict_proba(), whole, rtol=0, atol=1e-5)
            assert stream.predict() == classifier.predict([values[0][:, : t + 1]])[0]
    stream.reset()
    stream.feed(values[1])
    np.testing.assert_allclose(stream.predict_proba(), classifier.predict_proba(values[1:2])[0], rtol=0, atol=1e-5)


def test_two_classes_and_values_stream_too():
    values, labels = make_series(channels=1)
    binary = AlphabetClassifier(random_state=0).fit(values, labels > 0)
    assert binary.stream().feed(values[0, 0]).predict() == binary.predict(values[:1])[0]
    regressor = AlphabetRegressor(random_state=0).fit(values, labels * 1.5)
    assert regressor.stream().feed(values[0]).predict() == pytest.approx(regressor.predict(values[:1])[0], abs=1e-5)


def test_mistakes_are_said_in_one_sentence():
    values, labels = make_series()
    classifier = AlphabetClassifier(random_state=0).fit(values, labels)
    stream = classifier.stream()
    with pytest.raises(LearnError, match="push a token first"):
        stream.scores()
    with pytest.raises(LearnError, match="2 numbers, one per channel"):
        stream.push(1.0)
    with pytest.raises(LearnError, match="infinite in channel 1"):
        stream.push([1.0, np.inf])
    with pytest.raises(LearnError, match="with 2 channels"):
        stream.feed(np.ones((3, 4)))
    timed = AlphabetClassifier(random_state=0).fit(values, labels, times=np.arange(23.0))
    with pytest.raises(LearnError, match="fit without times"):
        timed.stream()
