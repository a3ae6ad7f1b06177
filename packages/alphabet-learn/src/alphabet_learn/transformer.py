"""AlphabetTransformer: the closed form's coordinates as features, with names that say what each measures."""

# ruff: noqa: N803 - X is scikit-learn's name for the series

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.facade import Facade
from alphabet_learn.poles import Pole, list_poles, short
from alphabet_learn.problem import Doubles

PARTS = ("real", "imaginary")


class AlphabetTransformer(TransformerMixin, Facade):  # type: ignore[misc]
    """Time series as tables (n, coordinates): what the random banks of the closed form measure, standardized.

    It needs no targets. X, times and random_state are as for AlphabetClassifier; a coordinate that did not vary in
    training is 0. A ridge on these features is the closed form, whose own head also balances and calibrates.
    """

    engine_: ClosedForm

    def __init__(self, *, random_state: Any = None, verbose: bool | None = None) -> None:
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, times: Any = None) -> Self:  # noqa: ARG002
        """Draw the banks, adapt them to the series, and measure each coordinate's mean and deviation; y is unused."""
        series, facts = self._read_training(X, times)
        engine, seed = ClosedForm(verbose=self.verbose), self._draw_seed()
        engine.fit_coordinates(series, seed=seed)
        self._remember(facts)
        self.engine_, self.seed_ = engine, seed
        return self

    def transform(self, X: Any, *, times: Any = None) -> Doubles:
        """The coordinates (n, P)."""
        series = self._read(X, times)
        return self.engine_.describe(series)

    def fit_transform(self, X: Any, y: Any = None, *, times: Any = None) -> Doubles:  # noqa: ARG002
        """The coordinates (n, P) of the series that it is fitted on."""
        return self.fit(X, times=times).transform(X, times=times)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """What each coordinate measures, such as "values, bank 3, direct pole 12, period 35, memory 7, log energy".

        input_features are not read: they are the names of X's columns, for pipelines, and compared with those.
        """
        check_is_fitted(self, "engine_")
        if input_features is not None:
            given, known = list(input_features), getattr(self, "feature_names_in_", None)
            if known is not None and given != list(known):
                raise LearnError("input_features is not equal to feature_names_in_: pass None, or the frame's columns.")
            if len(given) != self.n_features_in_:
                raise LearnError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                    f"{len(given)}: pass None, or one name per column of X."
                )
        measures = ["log energy", *(f"lag {lag}, {part} part" for lag in _lags(self.engine_) for part in PARTS)]
        poles = [_name(pole) for pole in list_poles(self.engine_.lenses, unit="")]
        return np.array([f"{pole}, {measure}" for pole in poles for measure in measures], dtype=object)


def _lags(engine: ClosedForm) -> tuple[int, ...]:
    """The lags, in tokens of a view, of the moments that every bank reads."""
    return engine.lenses[0].banks[0].config.lags


def _name(pole: Pole) -> str:
    """What tells a pole from all others; period and memory are in the user's unit of time, or in samples."""
    several = len(pole.shares) > 1
    channels = f", channel {' and '.join(str(channel) for channel in pole.channels)}" if several else ""
    return (
        f"{pole.view}, bank {pole.bank}, {pole.kind} pole {pole.mode}{channels}, period {short(pole.period)}, "
        f"memory {short(pole.memory)}"
    )
