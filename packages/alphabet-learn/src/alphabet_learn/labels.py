"""Targets of users, as the Problem that engines take: labels of any type, several labels at once, or values.

Weights: those of the samples, 1 if none are given. For classes they are multiplied, unless balanced is False, by
n / (k n_c), where n is the sum of all sample weights, n_c that of class c, and k the number of classes with any weight,
so that each class counts the same however rare it is. All weights are scaled to mean 1.
"""

import numbers
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from alphabet_learn.arrays import Array
from alphabet_learn.errors import LearnError
from alphabet_learn.problem import Doubles, Problem


def encode_classes(
    y: Any, sample_weight: Any = None, balanced: bool = True, *, count: int | None = None
) -> tuple[Array, Problem]:
    """The classes, sorted, and the problem whose targets are their codes: one column for two classes, else one each.

    y (n,): strings, integers, booleans or floats that are integers. count: how many series there are.
    """
    labels = _class_labels(_read_target(y))
    _check_count(labels, count)
    classes, codes = np.unique(labels, return_inverse=True)
    weights = read_weights(sample_weight, len(labels))
    totals = np.bincount(codes, weights=weights)  # n_c
    counted = totals > 0
    if counted.sum() < 2:
        only = classes[counted][0]
        where = "y holds" if len(classes) == 1 else "with these sample weights y holds"
        raise LearnError(
            f"{where} only one class, {only.item() if hasattr(only, 'item') else only!r}: add another class."
        )
    if balanced:
        weights = weights * (totals.sum() / (counted.sum() * np.where(counted, totals, 1.0)))[codes]
    targets = codes[:, None] == (np.array([1]) if len(classes) == 2 else np.arange(len(classes)))
    return classes, Problem("classification", targets.astype(np.float64), _mean_one(weights))


def encode_multilabel(y: Any, sample_weight: Any = None, *, count: int | None = None) -> Problem:
    """The problem of several labels at once: y (n, labels) of 0 and 1, or booleans; dense, or scipy's sparse."""
    array = _as_float(y.toarray() if hasattr(y, "toarray") else _read_target(y))
    _check_count(array, count)
    if array.ndim != 2 or array.shape[1] == 0:
        raise LearnError(f"y has shape {array.shape}: pass (n, labels) of 0 and 1 for several labels at once.")
    bad = (array != 0) & (array != 1)
    if bad.any():
        n, k = (int(i) for i in np.argwhere(bad)[0])
        raise LearnError(
            f"y is {array[n, k]} for series {n} and label {k}: write 1 where a label applies and 0 elsewhere."
        )
    return Problem("multilabel", array, _mean_one(read_weights(sample_weight, len(array))))


def encode_values(y: Any, sample_weight: Any = None, *, count: int | None = None) -> Problem:
    """The problem of predicting numbers: y (n,) or (n, K)."""
    array = _as_float(_read_target(y))
    _check_count(array, count)
    if array.ndim not in (1, 2) or array.size == 0:
        raise LearnError(f"y has shape {array.shape}: pass (n,) or (n, outputs).")
    columns = array.reshape(len(array), -1)
    bad = ~np.isfinite(columns)
    if bad.any():
        n, k = (int(i) for i in np.argwhere(bad)[0])
        raise LearnError(
            f"y is {columns[n, k]} for series {n}, output {k}: leave out series whose target is not finite."
        )
    return Problem("regression", columns, _mean_one(read_weights(sample_weight, len(columns))))


def read_weights(sample_weight: Any, count: int) -> Doubles:
    """(count,) weights, the largest of them 1; a number stands for all, None for 1.

    Refused unless finite, not negative and not all zero. Only their ratios matter, and those have finite sums.
    """
    if sample_weight is None:
        return np.ones(count)
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(count, float(sample_weight))
    weights = _as_float(_array(sample_weight), name="sample_weight")
    if weights.shape != (count,):
        raise LearnError(
            f"sample_weight has shape {weights.shape}, but there are {count} series: pass one weight each."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        n = int(np.argmax(bad))
        raise LearnError(f"sample_weight is {weights[n]} for series {n}: a weight is finite and not negative.")
    if not weights.any():
        raise LearnError("sample_weight is zero for all series: give at least one of them a positive weight.")
    return np.asarray(weights / weights.max())


def read_class_weights(given: dict[Any, Any], classes: Array) -> Doubles:
    """(classes,) weights, 1 for a class left out; a class that y has not, and what is no weight, are refused."""
    names = classes.tolist()
    unknown = [name for name in given if name not in names]
    if unknown:
        raise LearnError(
            f"class_weight names {unknown[0]!r}, but the classes of y are {', '.join(map(repr, names[:10]))}"
            f"{', ...' if len(names) > 10 else ''}: compare their spelling and type."
        )
    for name, weight in given.items():
        if not isinstance(weight, numbers.Real) or not 0 <= float(weight) < np.inf:
            raise LearnError(f"class_weight is {weight!r} for class {name!r}: a weight is finite and not negative.")
    return np.array([given.get(name, 1.0) for name in names], np.float64)


def _mean_one(weights: Doubles) -> Doubles:
    return np.asarray(weights / weights.mean())


def _read_target(y: Any) -> Array:
    if y is None:
        raise LearnError("fit requires y to be passed, but the target y is None: pass one target per series.")
    array = _array(y)
    if array.ndim == 0:
        raise LearnError(f"y should be a 1d array, but it is {y!r}: pass one target per series.")
    if array.dtype.kind == "c":
        raise LearnError(f"Complex data not supported: y is {array.dtype}.")
    return array


def _array(y: Any) -> Array:
    """The target as numpy; a list by way of objects, since numpy would write the NaN in ["a", nan] as text."""
    if isinstance(y, torch.Tensor):
        return np.asarray(y.detach().cpu())
    array = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if array.dtype.kind == "O" and array.size and all(isinstance(v, numbers.Real | np.bool_) for v in array.flat):
        return np.array(array.tolist())
    return array


def _class_labels(array: Array) -> Array:
    """Labels (n,) that can be sorted; missing ones, continuous ones and mixtures are refused."""
    labels: Array = column_or_1d(array, warn=True)
    kind = labels.dtype.kind
    if kind == "O":
        missing = np.array([label is None or type(label).__name__ == "NAType" or label != label for label in labels])
    else:
        missing = ~np.isfinite(labels) if kind == "f" else np.zeros(len(labels), dtype=np.bool_)
    if missing.any():
        n = int(np.argmax(missing))
        raise LearnError(f"y is {labels[n]} for series {n}: leave out series without a label.")
    if kind == "f" and (labels != np.round(labels)).any():
        n = int(np.argmax(labels != np.round(labels)))
        raise LearnError(
            f"Unknown label type: continuous. y is {labels[n]} for series {n}: pass classes, or use a regressor."
        )
    if kind not in "biufUO":
        raise LearnError(f"Unknown label type: {labels.dtype}. Convert the labels to strings or integers.")
    types = {"text" if isinstance(label, str) else type(label).__name__ for label in labels} if kind == "O" else set()
    if len(types) > 1:
        raise LearnError(f"Unknown label type: y mixes {', '.join(sorted(types))}. Convert the labels to one type.")
    if types - {"text"}:
        raise LearnError(
            f"Unknown label type: y holds objects of type {types.pop()}, for which numpy has no dtype. Convert the "
            "labels to strings, or to integers of 64 bits."
        )
    if len(labels) == 0:
        raise LearnError("y holds no label: pass one per series.")
    return labels


def _as_float(array: Array, name: str = "y") -> Doubles:
    try:
        if array.dtype.kind in "USmM":
            raise ValueError(f"it holds {array.dtype}")
        return np.asarray(array.astype(np.float64))
    except (OverflowError, TypeError, ValueError) as error:
        raise LearnError(f"{name} cannot be read as numbers: {error}; convert it to numbers first.") from error


def _check_count(array: NDArray[Any], count: int | None) -> None:
    if count is not None and (array.ndim == 0 or len(array) != count):
        found = len(array) if array.ndim else 0
        raise LearnError(
            f"Found input variables with inconsistent numbers of samples: {[count, found]}. X holds {count} series "
            f"and y {found} targets: pass one target per series."
        )
