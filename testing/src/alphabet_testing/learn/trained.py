"""Small problems for the trained method, and engines fitted to them."""

from typing import Any

import numpy as np
from alphabet_learn.problem import Problem
from alphabet_learn.series import Series
from alphabet_learn.trained import Trained
from numpy.typing import ArrayLike, NDArray

SMALL: dict[str, Any] = {"sizes": ((8, 2),), "epochs": 4, "budget_seconds": None}


def waves(
    count: int = 24, length: int = 20, classes: int = 2, channels: int = 1, seed: int = 0
) -> tuple[Series, NDArray[np.int64]]:
    """Noisy sines, and which of as many frequencies each has."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    phase = draw.uniform(0, 2 * np.pi, (count, 1, channels))
    angle = (0.4 + 0.5 * labels[:, None, None]) * np.arange(length)[None, :, None]
    values = np.sin(angle + phase) + 0.1 * draw.normal(size=(count, length, channels))
    return Series(values.astype(np.float32)), labels


def classify(labels: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> Problem:
    """The problem of telling classes apart, by their numbers (N,)."""
    classes = labels.max() + 1
    targets = labels[:, None] == (np.array([1]) if classes == 2 else np.arange(classes))
    return Problem("classification", targets.astype(np.float64), np.ones(len(labels)) if weights is None else weights)


def regress(targets: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Problem:
    """The problem of predicting targets (N, K)."""
    return Problem("regression", targets, np.ones(len(targets)) if weights is None else weights)


def fitted(series: Series, problem: Problem, seed: int = 0, **options: Any) -> Trained:
    """A small engine after its fit."""
    engine = Trained(**{**SMALL, **options})
    engine.fit(series, problem, seed=seed)
    return engine


def ragged(series: Series, lengths: ArrayLike) -> Series:
    """The series cut to lengths, and padded again."""
    valid = np.arange(series.length) < np.asarray(lengths)[:, None]
    return Series(np.where(valid[:, :, None], series.values, np.float32(0)), valid=valid)


def jittered(series: Series, seed: int = 0) -> Series:
    """The series at irregular instants, half a step to one and a half apart."""
    steps = np.random.default_rng(seed).uniform(0.5, 1.5, (series.count, series.length - 1))
    return Series(series.values, times=np.hstack((np.zeros((series.count, 1)), np.cumsum(steps, axis=1))))
