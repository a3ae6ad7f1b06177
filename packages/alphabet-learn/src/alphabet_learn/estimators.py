"""AlphabetClassifier and AlphabetRegressor, by scikit-learn's conventions; AlphabetTransformer lives next door.

X: (n, channels, time) or (n, time), numpy, torch or pandas; or a list of arrays (channels, time_i) or (time_i,). NaN
means missing. times: physical time of each token, (time,), (n, time) or a list of (time_i,); whoever fits with times
predicts with times. Long pandas frames come in by `read_frame`:

    X, times, y, ids = read_frame(frame, id="patient", time="at", label="outcome")
    classifier = AlphabetClassifier(random_state=0).fit(X, y, times=times)

With scikit-learn's metadata routing, pipelines and searches pass times on: `set_fit_request(times=True)` and
`set_score_request(times=True)`. `series.py` states how X and times are read, down to instants that several rows share.
"""

# ruff: noqa: N803 - X is scikit-learn's name for the series

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import column_or_1d

from alphabet_learn.arrays import Array
from alphabet_learn.errors import LearnError
from alphabet_learn.facade import Predictor, check_axes
from alphabet_learn.labels import encode_classes, encode_multilabel, encode_values, read_class_weights, read_weights
from alphabet_learn.notices import warn_user
from alphabet_learn.problem import Doubles, Problem
from alphabet_learn.trained import SIZES
from alphabet_learn.transformer import AlphabetTransformer

__all__ = ["AlphabetClassifier", "AlphabetRegressor", "AlphabetTransformer"]


class AlphabetClassifier(ClassifierMixin, Predictor):  # type: ignore[misc]
    """A classifier of time series, with two classes, several, or several labels at once.

    method: "closed_form", random banks with an affine head in closed form; or "trained", the paper's compact model.
    class_weight: "balanced", the default, lets every class count the same however rare it is; None counts series; a
    dict gives a weight per class, 1 for those that it leaves out. Several labels at once are never weighted.
    random_state: an int makes fits repeatable, on any number of threads.
    verbose: False silences the line of progress, which only a terminal gets anyway.
    sizes, budget_seconds, ensemble, epochs, patience: of the trained method alone; see `alphabet_learn.trained`.

    Probabilities are calibrated: by leave-one-out scores for the closed form, by validation folds for the trained
    method. With class_weight="balanced" they are those of equally frequent classes.

    After `fit`: classes_, sorted; for several labels at once the columns' names or numbers; and what `Facade` and
    `Predictor` list.
    """

    classes_: Array

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

    def fit(self, X: Any, y: Any, *, times: Any = None, sample_weight: Any = None) -> Self:
        """Learn from series and their labels (n,), of any type; or (n, labels) of 0 and 1 for several labels at once.

        A weight of 2 is as good as a repetition for the closed form.
        """
        _check_axes(X, y)
        series, facts = self._read_training(X, times)
        classes, problem = self._encode(y, sample_weight, series.count)
        _warn_of_single_members(classes, problem)
        self._fit_engine(series, problem, facts)
        self.classes_ = classes
        return self

    def predict(self, X: Any, *, times: Any = None) -> Array:
        """The class (n,) with the highest score; for several labels at once 0 or 1 each (n, labels)."""
        series = self._read(X, times)
        scores = self.engine_.scores(series)
        if self.kind_ == "multilabel":
            return (scores > 0).astype(np.int64)
        codes = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any, *, times: Any = None) -> Doubles:
        """Calibrated probabilities (n, classes), or of each label (n, labels); the highest is that of `predict`."""
        series = self._read(X, times)
        return self.engine_.probabilities(series)

    def decision_function(self, X: Any, *, times: Any = None) -> Doubles:
        """Scores (n, classes or labels); (n,) for two classes, positive for the second."""
        series = self._read(X, times)
        scores = self.engine_.scores(series)
        return scores[:, 0] if self.kind_ == "classification" and scores.shape[1] == 1 else scores

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, times: Any = None) -> float:
        """The share of series whose class, or whose labels all together, are predicted right.

        A label that the model was not fitted on counts as an error, and is warned of.
        """
        predicted = self.predict(X, times=times)
        if self.kind_ == "multilabel":
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        labels = np.asarray(column_or_1d(y)).tolist()
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        codes = np.array([places.get(label, -1) for label in labels])
        if (codes < 0).any():
            example = labels[int(np.argmax(codes < 0))]
            warn_user(
                f"y holds labels that the model was not fitted on, such as {example!r} ({int((codes < 0).sum())} of "
                f"{len(codes)} series), which count as errors: compare their spelling and type with classes_.",
            )
        found = np.array([places[label] for label in predicted.tolist()])
        return float(accuracy_score(codes, found, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _encode(self, y: Any, sample_weight: Any, count: int) -> tuple[Array, Problem]:
        """What to call the outputs, and the problem."""
        chosen = self.class_weight
        if not (chosen is None or isinstance(chosen, dict) or (isinstance(chosen, str) and chosen == "balanced")):
            raise LearnError(f"class_weight is {chosen!r}: pass 'balanced', None, or a dict of a weight per class.")
        if _is_table(y):
            if isinstance(chosen, dict):
                raise LearnError("class_weight is a dict, but y holds several labels at once: pass sample_weight=.")
            problem = encode_multilabel(y, sample_weight, count=count)
            return np.asarray(getattr(y, "columns", np.arange(problem.outputs))), problem
        if isinstance(chosen, dict):
            classes, problem = encode_classes(y, sample_weight, False, count=count)
            codes = problem.targets[:, 0].astype(np.intp) if len(classes) == 2 else problem.targets.argmax(axis=1)
            weights = problem.weights * read_class_weights(chosen, classes)[codes]
            return encode_classes(y, read_weights(weights, count), False, count=count)
        return encode_classes(y, sample_weight, chosen is not None, count=count)

    def _encode_known(self, y: Any, sample_weight: Any, count: int) -> Problem:
        classes, problem = self._encode(y, sample_weight, count)
        if self.kind_ != problem.kind or not np.array_equal(classes, self.classes_):
            raise LearnError(
                f"y holds {classes.tolist()}, but the model was fitted on {self.classes_.tolist()}: pass series of "
                "the same classes."
            )
        return problem


class AlphabetRegressor(RegressorMixin, Predictor):  # type: ignore[misc]
    """A regression on time series, of one value or several; its parameters are those of AlphabetClassifier.

    After `fit`: regression_1d_, whether y was (n,); and what `Facade` and `Predictor` list.
    """

    regression_1d_: bool

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

    def fit(self, X: Any, y: Any, *, times: Any = None, sample_weight: Any = None) -> Self:
        """Learn from series and their values (n,) or (n, outputs)."""
        _check_axes(X, y)
        series, facts = self._read_training(X, times)
        problem = encode_values(y, sample_weight, count=series.count)
        self._fit_engine(series, problem, facts)
        self.regression_1d_ = np.asarray(y).ndim == 1
        return self

    def predict(self, X: Any, *, times: Any = None) -> Doubles:
        """The predicted values, (n,) or (n, outputs) as y was."""
        series = self._read(X, times)
        values = self.engine_.scores(series)
        return values[:, 0] if self.regression_1d_ else values

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, times: Any = None) -> float:
        """The coefficient of determination, R squared."""
        return float(r2_score(y, self.predict(X, times=times), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _encode_known(self, y: Any, sample_weight: Any, count: int) -> Problem:
        return encode_values(y, sample_weight, count=count)


def _check_axes(data: Any, y: Any) -> None:
    try:
        count = len(y)
    except TypeError:  # None, a number, a sparse table: what y should be is said where it is read
        return
    check_axes(data, count)


def _is_table(y: Any) -> bool:
    """Whether y has several columns, which makes them labels that do not exclude each other."""
    if hasattr(y, "toarray"):
        return True
    try:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    except ValueError:  # rows of several lengths are refused where labels are read
        return False
    return len(shape) == 2 and shape[1] != 1


def _warn_of_single_members(classes: Array, problem: Problem) -> None:
    """One warning for classes of one series: left out, nothing of its class is left to learn from."""
    if problem.kind != "classification":
        return
    counted = problem.targets[problem.weights > 0]
    members = counted.sum(axis=0)
    if problem.outputs == 1:
        members = np.array([len(counted) - members[0], members[0]])
    single = np.flatnonzero(members == 1)
    if len(single):
        warn_user(
            f"y holds a single series of class {classes[single[:1]].tolist()[0]!r} ({len(single)} such classes of "
            f"{len(classes)}), too few to choose a penalty or to calibrate probabilities by: add series, or leave the "
            "class out.",
        )
