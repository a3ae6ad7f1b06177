"""aeon's own checks, every one of them, and what the adapter promises beyond them."""

import numpy as np
import pytest
from alphabet_learn import AlphabetClassifier, AlphabetRegressor
from alphabet_learn.aeon_adapter import AlphabetAeonClassifier, AlphabetAeonRegressor

ADAPTERS = {AlphabetAeonClassifier: AlphabetClassifier, AlphabetAeonRegressor: AlphabetRegressor}


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_adapter_passes_every_check_of_aeon(adapter):
    from aeon.testing.estimator_checking import check_estimator

    results = check_estimator(adapter, raise_exceptions=True, verbose=False)
    assert len(results) >= 40
    assert set(results.values()) == {"PASSED"}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("capability", ["missing_values", "unequal_length", "multivariate", "univariate"])
def test_the_adapter_has_every_capability(adapter, capability):
    assert adapter().get_tag(f"capability:{capability}") is True


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_adapter_predicts_what_the_estimator_does(adapter):
    draw = np.random.default_rng(0)
    lengths = draw.integers(6, 12, size=16)
    series = [draw.normal(size=(2, length)) for length in lengths]
    series[3][0, 2] = np.nan
    y = np.arange(16) % 2 if adapter is AlphabetAeonClassifier else lengths.astype(float)
    adapted = adapter(random_state=0).fit(series, y)
    direct = ADAPTERS[adapter](random_state=0).fit(series, y)
    np.testing.assert_array_equal(adapted.predict(series), direct.predict(series))
    assert adapted.get_params().keys() == direct.get_params().keys()
