"""Threads, forks and copies: a fitted estimator predicts the same wherever and beside whatever it runs."""

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from alphabet_learn import AlphabetClassifier

METHODS = ["closed_form", "trained"]


def draw(count, seed=0):
    """Noisy walks (count, 2, 40), with gaps."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(count, 2, 40)).cumsum(axis=2)
    values[:, 0, 10:12] = np.nan
    return values


def fit(method):
    classifier = AlphabetClassifier(method, sizes=((16, 4),), epochs=3, random_state=0)
    return classifier.fit(draw(24), np.arange(24) % 3)


@pytest.fixture(scope="module", params=METHODS)
def classifier(request):
    return fit(request.param)


@pytest.mark.slow
def test_threads_predict_at_once_what_one_predicts_alone(classifier):
    batches = [draw(5 + seed, seed) for seed in range(16)]
    fresh = copy.deepcopy(classifier)  # which has not predicted yet: the first calls come together too
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fresh.predict_proba, batches))
    for batch, probabilities in zip(batches, found, strict=True):
        np.testing.assert_array_equal(probabilities, classifier.predict_proba(batch))


def _predict_in_child(classifier, values, connection):
    connection.send(classifier.predict_proba(values))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks are safe to test on Linux alone")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")  # threads of the pool are running, on purpose
def test_a_forked_child_predicts_what_its_parent_does(classifier):
    values = draw(7, seed=1)
    expected = classifier.predict_proba(values)
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_predict_in_child, args=(classifier, values, sending))
    child.start()
    try:
        assert receiving.poll(60), "the child does not answer"
        np.testing.assert_array_equal(receiving.recv(), expected)
    finally:
        child.kill()
        child.join()


@pytest.mark.slow
def test_copies_predict_the_same_whether_or_not_the_original_has_predicted(classifier, tmp_path):
    values = draw(7, seed=1)
    expected = classifier.predict_proba(values)
    joblib.dump(classifier, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(classifier)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(again.predict_proba(values), expected)
    fresh = pickle.loads(pickle.dumps(classifier))
    before = pickle.dumps(fresh)
    fresh.predict_proba(values)
    assert pickle.dumps(fresh) == before


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_random_state_gives_the_same_model_on_any_number_of_threads(method):
    configured, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(fit(method).predict_proba(draw(7, seed=1)))
    finally:
        torch.set_num_threads(configured)
    # Fits and predictions divide work among threads by series, never a sum; only BLAS may round a sum otherwise.
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)
