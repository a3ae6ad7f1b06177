"""Facade: what the three estimators share: reading X and times, a seed, and what they were fitted on."""

# ruff: noqa: N803 - X is scikit-learn's name for the series

from abc import ABC, abstractmethod
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.notices import warn_user
from alphabet_learn.problem import Doubles, Kind, Problem
from alphabet_learn.series import Series, read_series
from alphabet_learn.standardizing import measure_channels
from alphabet_learn.trained import Trained


class Facade(BaseEstimator):  # type: ignore[misc]
    """An estimator of scikit-learn over an engine.

    After `fit`: engine_; seed_, which with X and y decides everything; channels_in_; length_in_, of the longest
    training series; timed_, whether times were given, and dated_, whether as dates or durations; n_features_in_, the
    length for a matrix X (n, time), else the number of channels; feature_names_in_, if X was a frame whose columns have
    names.
    """

    random_state: Any
    engine_: ClosedForm | Trained
    seed_: int
    channels_in_: int
    length_in_: int
    timed_: bool
    dated_: bool
    n_features_in_: int

    def save(self, path: str | Path) -> Path:
        """Write the fitted estimator to one file, without pickle, and return its path; `load` reads it."""
        from alphabet_learn import storage

        check_is_fitted(self, "engine_")
        return storage.save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    def _read_training(self, data: Any, times: Any) -> tuple[Series, dict[str, Any]]:
        """X as series to fit on; and attributes that later X are compared with, for `_remember` after a success."""
        series = read_series(data, times=times)
        blank = Facade()
        validate_data(blank, data, reset=True, skip_check_array=True, ensure_2d=False)  # the names of columns
        width = _matrix_width(data)
        facts = {
            **{name: value for name, value in vars(blank).items() if name.endswith("_")},
            "channels_in_": series.channels,
            "length_in_": series.length,
            "timed_": times is not None,
            "dated_": _holds_dates(times),
            "n_features_in_": series.channels if width is None else width,
        }
        _warn_of_constant_channels(series)
        _warn_of_frames(data)
        return series, facts

    def _remember(self, facts: dict[str, Any]) -> None:
        """Set what a fit found out, in place of what an earlier one did."""
        for name in ("feature_names_in_", "cost_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(facts)

    def _read(self, data: Any, times: Any) -> Series:
        """X as series like those that the estimator was fitted on."""
        check_is_fitted(self, "engine_")
        if self.timed_ and times is None:
            raise LearnError(
                "The model was fitted with times=, but X comes without: pass times= here too, in the same unit."
            )
        if times is not None and not self.timed_:
            raise LearnError(
                "times= is given, but the model was fitted without: leave it out, or fit with times= as well."
            )
        if times is not None and _holds_dates(times) != self.dated_:
            found, known = ("numbers", "dates") if self.dated_ else ("dates", "numbers")
            raise LearnError(
                f"times= holds {found}, but the model was fitted on {known}: pass {known} here too; dates count as "
                "seconds."
            )
        series = read_series(data, times=times, channels=self.channels_in_, deviation=_deviation(self.engine_))
        validate_data(self, data, reset=False, skip_check_array=True, ensure_2d=False)
        width = _matrix_width(data)
        # One channel and several features, or one token, are what only a matrix gives.
        on_matrix = self.channels_in_ == 1 and (self.n_features_in_ > 1 or self.length_in_ == 1)
        if on_matrix and width is not None and width != self.n_features_in_:
            raise LearnError(
                f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input: a matrix has as many time steps as the one in training; series of other lengths are welcome "
                "as X[:, None, :] or as a list."
            )
        return series

    def _draw_seed(self) -> int:
        try:
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError as error:
            raise LearnError(
                f"random_state is {self.random_state!r}: pass an int, None, or a numpy.random.RandomState."
            ) from error


class Predictor(Facade, ABC):
    """A facade that predicts: its parameters are those of both methods, its fitted engine has scores.

    `kind_` is "classification", "multilabel" or "regression".
    """

    method: str
    verbose: bool | None
    sizes: Any
    budget_seconds: float | None
    ensemble: int
    epochs: int
    patience: int
    kind_: Kind

    def explain(self, X: Any, *, times: Any = None, target: Any = None) -> Any:
        """Contributions of poles that sum to each margin exactly, an `alphabet_learn.explaining.Explanation`.

        target: the class, the label or the number of the output that is asked for; None: the predicted class.
        """
        from alphabet_learn import explaining

        return explaining.explain(self, self._read(X, times), target=target)

    def prune(self, k: int, X: Any = None, y: Any = None, *, times: Any = None, sample_weight: Any = None) -> Any:
        """A copy that reads its k strongest poles alone, with a head fitted anew; `cost_` says what that costs.

        X and y: the training series, which a model does not keep.
        """
        from alphabet_learn import explaining

        if X is None:
            return explaining.prune(self, k)
        series = self._read(X, times)
        return explaining.prune(self, k, series, self._encode_known(y, sample_weight, series.count))

    def to_onnx(self, path: str | Path) -> Path:
        """Write a model that takes raw values and gives scores and probabilities or values, for onnxruntime."""
        from alphabet_learn import onnx_export

        check_is_fitted(self, "engine_")
        return onnx_export.to_onnx(self, path)

    def stream(self) -> Any:
        """A stream that takes one token at a time and always has a prediction; see `alphabet_learn.streaming`."""
        from alphabet_learn import streaming

        check_is_fitted(self, "engine_")
        return streaming.Stream(self)

    def _new_engine(self) -> ClosedForm | Trained:
        if self.method == "closed_form":
            return ClosedForm(verbose=self.verbose)
        if self.method == "trained":
            return Trained(
                sizes=self.sizes,
                budget_seconds=self.budget_seconds,
                ensemble=_plain(self.ensemble),
                epochs=_plain(self.epochs),
                patience=_plain(self.patience),
                verbose=self.verbose is not False,
            )
        raise LearnError(f"method is {self.method!r}: pass 'closed_form' or 'trained'.")

    @abstractmethod
    def _encode_known(self, y: Any, sample_weight: Any, count: int) -> Problem:
        """The problem of targets that must be of the kind that the estimator was fitted on."""

    def _fit_engine(self, series: Series, problem: Problem, facts: dict[str, Any]) -> Self:
        engine, seed = self._new_engine(), self._draw_seed()
        engine.fit(series, problem, seed=seed)
        self._remember(facts)
        self.engine_, self.seed_, self.kind_ = engine, seed, problem.kind
        return self


def _deviation(engine: ClosedForm | Trained) -> Doubles | None:
    """The deviation (C,) of the series that an engine was fitted on; None if pruning left no view of their values."""
    if isinstance(engine, Trained):
        return engine.scaler.deviation
    return next((lens.scaler.deviation for lens in engine.lenses if lens.view.kind == "values"), None)


def check_axes(data: Any, count: int) -> None:
    """Refuse an array whose first axis is not that of the targets while another one has just as many entries."""
    shape = _shape(data)
    if len(shape) in (2, 3) and shape[0] != count and count in shape[1:]:
        axis = shape.index(count)
        raise LearnError(
            f"Found input variables with inconsistent numbers of samples: {[shape[0], count]}. Axis {axis} of X has as "
            f"many entries as y, so the axes look swapped: pass np.moveaxis(X, {axis}, 0), and time last."
        )


def _matrix_width(data: Any) -> int | None:
    """How many time steps a matrix X (n, time) has; None for other lists and for arrays with channels."""
    shape = _shape(data)
    return int(shape[1]) if len(shape) == 2 else None


def _shape(data: Any) -> tuple[int, ...]:
    """The shape of an array, or of a matrix written as a list of lists; nothing for other lists of series."""
    if not isinstance(data, list | tuple):
        return tuple(data.shape) if hasattr(data, "shape") else np.asarray(data).shape
    rows = {len(row) if isinstance(row, list | tuple) and len(row) and np.ndim(row[0]) == 0 else None for row in data}
    width = rows.pop() if len(rows) == 1 else None
    return () if width is None else (len(data), width)


def _holds_dates(times: Any) -> bool:
    """Whether times= is of dates or durations, which become seconds, by its first entry."""
    while isinstance(times, list | tuple) and times:
        times = times[0]
    kind = getattr(getattr(times, "dtype", None), "kind", "")
    if kind == "O" and np.size(times):
        return _holds_dates(np.asarray(times).ravel()[0])
    return kind in ("m", "M") or isinstance(times, datetime)


def _plain(count: Any) -> Any:
    """Python's integer in place of numpy's, which parameter grids are made of."""
    return count.item() if isinstance(count, np.integer) else count


def _warn_of_constant_channels(series: Series) -> None:
    """One warning for channels that are the same number in all series at all times, or never observed."""
    mean, _, constant = measure_channels(series)
    places: NDArray[np.intp] = np.flatnonzero(constant)
    if len(places) == 0 or series.count * series.length == 1:
        return
    first = int(places[0])
    found = "never observed" if np.isnan(mean[first]) else f"{mean[first]:g} in every series at all times"
    others = f" (and so are {len(places) - 1} further channels constant)" if len(places) > 1 else ""
    warn_user(
        f"Channel {first} of X is {found}{others}, so nothing can be learned from it: leave it out, or check how X was "
        "read.",
    )


def _warn_of_frames(data: Any) -> None:
    """One warning for a list of pandas frames with more rows than columns, whose rows are most likely instants."""
    frame: Any = data[0] if isinstance(data, list | tuple) else None
    if hasattr(frame, "columns") and len(frame) > len(frame.columns) and len(frame) <= 10 * len(frame.columns):
        warn_user(
            f"X is a list of frames, the first of {len(frame)} rows and {len(frame.columns)} columns, and rows are "
            "read as channels: if they are instants, pass [x.T for x in X].",
        )
