import pytest
from alphabet_learn import AlphabetClassifier, AlphabetTransformer
from alphabet_testing.learn.waves import DATES, FLAT, NAMES, TIMES, X, Y


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
