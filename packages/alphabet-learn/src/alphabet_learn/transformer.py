"""AlphabetTransformer: the closed form's coordinates as features, with names that say what each measures."""

# ruff: noqa: N803 - X is scikit-learn's name for the series

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from alphabet_learn.banks import Lens, poles_of
from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.facade import Facade
from alphabet_learn.problem import Doubles

BANKS = ("direct", "cascaded")


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
        series = self._read_training(X, times)
        engine, seed = ClosedForm(verbose=self.verbose), self._draw_seed()
        engine.fit_coordinates(series, seed=seed)
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
        return np.array([name for lens in self.engine_.lenses for name in _coordinate_names(lens)], dtype=object)


def _coordinate_names(lens: Lens) -> list[str]:
    """Names of one view's coordinates, in their order; period and memory in the user's unit of time, or in samples."""
    unit, names = lens.unit * lens.view.span, []
    for number, model in enumerate(lens.banks, start=1):
        lags = model.config.lags
        measures = ["log energy", *(f"lag {lag}, {part} part" for lag in lags for part in ("real", "imaginary"))]
        channels = _channels_read(model.project.weight.detach().numpy())
        for bank, poles in zip(BANKS, poles_of(model), strict=True):
            for place, pole in enumerate(poles):
                period, memory = 2 * np.pi / pole.imag * unit, -unit / pole.real
                begin = f"{lens.view.name}, bank {number}, {bank} pole {place + 1}{channels[place]}"
                where = f"{begin}, period {period:.3g}, memory {memory:.3g}"
                names += [f"{where}, {measure}" for measure in measures]
    return names


def _channels_read(weight: NDArray[np.float32]) -> list[str]:
    """Which channels drive each pole, by way of its two features; nothing where there is but one."""
    modes, channels = len(weight) // 2, weight.shape[1]
    if channels == 1:
        return [""] * modes
    read = np.abs(weight).argmax(axis=1)  # (2M,): features m and M + m drive pole m
    pairs = zip(read[:modes].tolist(), read[modes:].tolist(), strict=True)
    return [f", channel {a}" if a == b else f", channels {min(a, b)} and {max(a, b)}" for a, b in pairs]
