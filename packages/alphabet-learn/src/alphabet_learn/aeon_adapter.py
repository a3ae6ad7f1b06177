"""aeon's classifier and regressor over the same engines: `pip install 'alphabet-learn[aeon]'`.

aeon's base classes cannot pass scikit-learn's checks, hence two facades. These take what aeon's benchmarks, pipelines
and ensembles pass; physical time is for AlphabetClassifier and AlphabetRegressor alone, since aeon has no word for it.
"""

# ruff: noqa: N803 - X is aeon's name for the series

from typing import Any

from aeon.classification.base import BaseClassifier
from aeon.regression.base import BaseRegressor

from alphabet_learn.arrays import Array
from alphabet_learn.estimators import AlphabetClassifier, AlphabetRegressor
from alphabet_learn.problem import Doubles
from alphabet_learn.trained import SIZES

TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": True,
    "algorithm_type": "convolution",
}


class AlphabetAeonClassifier(BaseClassifier):  # type: ignore[misc]
    """AlphabetClassifier for aeon, with the same parameters; `estimator_` is the fitted AlphabetClassifier."""

    _tags = TAGS
    estimator_: AlphabetClassifier

    def __init__(
        self,
        method: str = "closed_form",
        *,
        class_weight: str | dict[Any, float] | None = "balanced",
        random_state: Any = None,
        verbose: bool | None = None,
        sizes: Any = SIZES,
        budget_seconds: float | None = 60.0,
        ensemble: int = 1,
        epochs: int = 100,
        patience: int = 8,
    ) -> None:
        self.method = method
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.sizes = sizes
        self.budget_seconds = budget_seconds
        self.ensemble = ensemble
        self.epochs = epochs
        self.patience = patience
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "AlphabetAeonClassifier":
        self.estimator_ = AlphabetClassifier(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> Array:
        return self.estimator_.predict(X)

    def _predict_proba(self, X: Any) -> Doubles:
        return self.estimator_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """What aeon's checks run: the default, and a trained model of one epoch."""
        return [{}, {"method": "trained", "sizes": ((8, 2),), "epochs": 1}]


class AlphabetAeonRegressor(BaseRegressor):  # type: ignore[misc]
    """AlphabetRegressor for aeon, with the same parameters; `estimator_` is the fitted AlphabetRegressor."""

    _tags = TAGS
    estimator_: AlphabetRegressor

    def __init__(
        self,
        method: str = "closed_form",
        *,
        random_state: Any = None,
        verbose: bool | None = None,
        sizes: Any = SIZES,
        budget_seconds: float | None = 60.0,
        ensemble: int = 1,
        epochs: int = 100,
        patience: int = 8,
    ) -> None:
        self.method = method
        self.random_state = random_state
        self.verbose = verbose
        self.sizes = sizes
        self.budget_seconds = budget_seconds
        self.ensemble = ensemble
        self.epochs = epochs
        self.patience = patience
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "AlphabetAeonRegressor":
        self.estimator_ = AlphabetRegressor(**self.get_params(deep=False)).fit(X, y)
        return self

    def _predict(self, X: Any) -> Doubles:
        return self.estimator_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """What aeon's checks run: the default, and a trained model of one epoch."""
        return [{}, {"method": "trained", "sizes": ((8, 2),), "epochs": 1}]
