"""scikit-learn's own checks, every one of them: no exception for the closed form, one for the trained method."""

import pytest
from alphabet_learn import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

pytestmark = [
    pytest.mark.slow,
    # One check has a class of a single series among its weighted ones, and that is said.
    pytest.mark.filterwarnings("ignore:y holds a single series:UserWarning"),
]

NOT_FOR_TRAINING = {
    "check_sample_weight_equivalence_on_dense_data": "a repetition changes the validation fold and the batches, a "
    "weight does not"
}
SMALL = {"method": "trained", "sizes": ((16, 4),), "budget_seconds": None}


@pytest.fixture(autouse=True)
def _nothing_skipped(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it one check is skipped


@parametrize_with_checks([AlphabetClassifier(), AlphabetRegressor(), AlphabetTransformer()])
def test_the_closed_form_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [AlphabetClassifier(**SMALL, epochs=60), AlphabetRegressor(**SMALL, epochs=300, patience=50)],
    expected_failed_checks=lambda _: NOT_FOR_TRAINING,
)
def test_the_trained_method_passes_every_check_of_scikit_learn_but_one(estimator, check):
    check(estimator)
