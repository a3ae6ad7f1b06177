"""ClosedForm: random banks, nothing trained, and an affine head in closed form.

Series that are the same, with the same target, are one row with the sum of their weights, and rows lie in an order
that depends on their content alone. So a weight of two is the same as a repetition, and the order of the training
series does not matter: for the banks that are drawn, for leave-one-out, and for the head.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.banks import Floats, Lens, count_coordinates, draw_lens
from alphabet_learn.calibration import Calibration, fit_calibration
from alphabet_learn.clock import median_step
from alphabet_learn.errors import LearnError
from alphabet_learn.kernel_ridge import add_to_kernel, fit_kernel, head_of
from alphabet_learn.problem import Problem
from alphabet_learn.progress import Progress
from alphabet_learn.recipe import RECIPE, Recipe
from alphabet_learn.ridge import Ridge, fit_gram, standardize, standardize_rows
from alphabet_learn.series import Series, trim
from alphabet_learn.standardizing import measure_targets

Doubles = NDArray[np.float64]
SMALLEST_SPREAD = 1e-6  # relative to its mean, a coordinate that varies less varies by rounding
ROWS_AT_ONCE = 2048  # whose coordinates are held in memory at the same time, where rows are more than coordinates


@dataclass(frozen=True, eq=False)
class Head:
    """The affine head: scores = intercept + (coordinates - mean) * factor @ weights.

    mean, factor (P,): of the coordinates in training; weights (P, K), intercept (K,), all float64
    """

    mean: Doubles
    factor: Doubles
    weights: Doubles
    intercept: Doubles

    @cached_property
    def folded(self) -> tuple[Doubles, Doubles]:
        """Weights (P, K) and intercept (K,) for coordinates as they are, not standardized."""
        weights = self.factor[:, None] * self.weights
        return weights, self.intercept - self.mean @ weights

    def __getstate__(self) -> dict[str, Doubles]:
        """The fields alone, so that a copy or a pickle is the same before and after a prediction."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def standardize(self, coordinates: Floats, first: int) -> Doubles:
        """A block of coordinates (N, p), those from number `first` on, standardized as in training."""
        places = slice(first, first + coordinates.shape[1])
        return (coordinates - self.mean[places]) * self.factor[places]


class ClosedForm:
    """The engine: `fit`, then `scores` and `probabilities`; `describe` gives the standardized coordinates."""

    lenses: tuple[Lens, ...]
    head: Head
    calibration: Calibration | None
    penalty: float
    leave_one_out_error: float

    def __init__(self, recipe: Recipe = RECIPE, *, verbose: bool | None = None) -> None:
        self.recipe = recipe
        self.verbose = verbose

    def fit(self, series: Series, problem: Problem, *, seed: int) -> None:
        """Draw the banks and solve for the head."""
        series, problem = merge_duplicates(series, problem)
        progress = Progress(self.verbose)
        self.lenses = draw_lenses(series, self.recipe, seed=seed)
        targets, unit = scale_targets(problem)
        low, high, count = self.recipe.penalties
        penalties = np.logspace(low, high, count)
        fit_head = self._fit_by_kernel if series.count <= self.coordinates else self._fit_by_gram
        self.head, ridge = in_units(*fit_head(series, targets, problem.weights, penalties, progress), unit)
        progress.end()
        self.penalty = float(ridge.penalty[0])
        self.leave_one_out_error = float(np.nanmin(ridge.errors.mean(axis=1)))
        regression = problem.kind == "regression"
        self.calibration = None if regression else fit_calibration(ridge.predictions, problem)

    def fit_coordinates(self, series: Series, *, seed: int) -> None:
        """Draw the banks and standardize what they measure, without a head: for `describe` alone."""
        no_targets = Problem("regression", np.zeros((series.count, 0)), np.ones(series.count))
        series, merged = merge_duplicates(series, no_targets)
        progress = Progress(self.verbose)
        self.lenses = draw_lenses(series, self.recipe, seed=seed)
        rows = self._describe_rows(series, "the only pass", progress)
        mean, factor = standardize_rows(rows, merged.weights, floor=SMALLEST_SPREAD)
        progress.end()
        self.head = Head(mean, factor, np.zeros((len(mean), 0)), np.zeros(0))
        self.calibration = None

    def scores(self, series: Series) -> Doubles:
        """Scores (N, K): of classes, of labels, or the predicted values."""
        weights, intercept = self.head.folded
        scores, first = np.tile(intercept, (series.count, 1)), 0
        for coordinates in self._coordinates(series):
            places = slice(first, first + coordinates.shape[1])
            scores += coordinates @ weights[places]
            first = places.stop
        return scores

    def probabilities(self, series: Series) -> Doubles:
        """Calibrated probabilities of classes (N, classes) or labels (N, K)."""
        if self.calibration is None:
            raise LearnError("A regression has no probabilities; use predict in place of predict_proba.")
        return self.calibration.probabilities(self.scores(series))

    def describe(self, series: Series) -> Doubles:
        """All coordinates (N, P), standardized as in training: views, then banks, then poles, seven for each pole."""
        firsts = np.cumsum([0, *[count_coordinates(bank) for lens in self.lenses for bank in lens.banks]])
        parts = zip(self._coordinates(series), firsts, strict=False)
        return np.concatenate([self.head.standardize(block, int(first)) for block, first in parts], axis=1)

    @property
    def coordinates(self) -> int:
        """P: how many numbers describe a series."""
        return sum(count_coordinates(bank) for lens in self.lenses for bank in lens.banks)

    def _coordinates(self, series: Series) -> Iterator[Floats]:
        for lens in self.lenses:
            yield from lens.describe(series)

    def _describe_rows(self, series: Series, what: str, progress: Progress) -> Iterator[Floats]:
        """All coordinates (rows, P), some series at a time."""
        for start in range(0, series.count, ROWS_AT_ONCE):
            rows = series.take(np.arange(start, min(start + ROWS_AT_ONCE, series.count)))
            yield np.concatenate(list(self._coordinates(rows)), axis=1)
            progress.show(f"ALPHABET: {what}, {start + rows.count:,} of {series.count:,} series")

    def _fit_by_kernel(
        self, series: Series, targets: Doubles, weights: Doubles, penalties: Doubles, progress: Progress
    ) -> tuple[Head, Ridge]:
        """The head where series are fewer than coordinates: all coordinates are kept, in float32."""
        kernel, blocks, means, factors = np.zeros((series.count, series.count)), [], [], []
        banks = sum(len(lens.banks) for lens in self.lenses)
        for number, block in enumerate(self._coordinates(series), start=1):
            mean, factor = standardize(block, weights, floor=SMALLEST_SPREAD)
            scaled = ((block - mean) * factor).astype(np.float32)
            add_to_kernel(kernel, scaled)
            blocks.append(scaled)
            means.append(mean)
            factors.append(factor)
            progress.show(f"ALPHABET: bank {number} of {banks}, {series.count:,} series")
        ridge = fit_kernel(kernel, targets, weights, penalties=penalties)
        solution = np.concatenate([head_of(block, ridge) for block in blocks])
        # The rows' mean is zero up to rounding, and the intercept accounts for what is left of it.
        return Head(np.concatenate(means), np.concatenate(factors), solution, ridge.intercept), ridge

    def _fit_by_gram(
        self, series: Series, targets: Doubles, weights: Doubles, penalties: Doubles, progress: Progress
    ) -> tuple[Head, Ridge]:
        """The head where coordinates are fewer than series: these pass three times, some at a time."""
        first = self._describe_rows(series, "first of three passes", progress)
        mean, factor = standardize_rows(first, weights, floor=SMALLEST_SPREAD)
        passes = iter(("second of three passes", "last of three passes"))

        def scaled_rows() -> Iterator[Doubles]:
            return ((block - mean) * factor for block in self._describe_rows(series, next(passes), progress))

        ridge = fit_gram(scaled_rows, targets, weights, penalties=penalties)
        return Head(mean, factor, ridge.coefficients, ridge.intercept), ridge


def draw_lenses(series: Series, recipe: Recipe, *, seed: int) -> tuple[Lens, ...]:
    """Every view that the training series are long enough for, with its random banks."""
    unit = 1.0 if series.times is None else median_step(series.times)
    seeds = np.random.SeedSequence(seed).generate_state(len(recipe.views))
    drawn = [
        draw_lens(view, series, recipe, unit=unit, seed=int(each))
        for view, each in zip(recipe.views, seeds, strict=True)
    ]
    return tuple(lens for lens in drawn if lens is not None)


def scale_targets(problem: Problem) -> tuple[Doubles, Doubles]:
    """Targets (N, K) for ridge regression and their unit (K,): labels as -1 and 1, values in units of their deviation.

    One penalty serves all outputs, whose errors are therefore compared in units of their own.
    """
    if problem.kind != "regression":
        return 2.0 * problem.targets - 1.0, np.ones(problem.outputs)
    _, deviation, largest = measure_targets(problem.targets, problem.weights)
    unit = np.where(deviation > 0, deviation, largest)
    return problem.targets / unit, unit


def in_units(head: Head, ridge: Ridge, unit: Doubles) -> tuple[Head, Ridge]:
    """A head for targets that were divided by their unit (K,), and its fit, for the targets as they are."""
    with np.errstate(over="ignore"):  # an error is a square, which may be infinite where no prediction is
        errors = ridge.errors * unit**2
    back = replace(
        ridge,
        coefficients=ridge.coefficients * unit,
        intercept=ridge.intercept * unit,
        predictions=ridge.predictions * unit,
        errors=errors,
    )
    return replace(head, weights=head.weights * unit, intercept=head.intercept * unit), back


def merge_duplicates(series: Series, problem: Problem) -> tuple[Series, Problem]:
    """The distinct series with a positive weight, in the order of their digests; weights are summed, with mean 1.

    A digest reads a series up to its end, and where it is observed only if something of it is missing: so neither
    padding nor the other series change the order. Times and values to predict are digested behind everything else, so
    that their unit does not change it either.
    """
    used = np.flatnonzero(problem.weights > 0)
    series = trim(series.take(used))
    rows: dict[tuple[bytes, int, bytes], int] = {}
    weights: dict[tuple[bytes, int, bytes], float] = {}
    for i, (length, weight) in enumerate(zip(series.lengths.tolist(), problem.weights[used].tolist(), strict=True)):
        content, measured = [series.values[i, :length]], []
        if series.observed is not None and not series.observed[i, :length].all():
            content.append(series.observed[i, :length])
        if series.times is not None:
            measured.append(series.times[i, :length])
        (measured if problem.kind == "regression" else content).append(problem.targets[used[i]])
        key = _digest(*content), length, _digest(*measured)
        rows.setdefault(key, i)
        weights[key] = weights.get(key, 0.0) + weight
    order = sorted(rows)
    places = np.array([rows[key] for key in order])
    summed = np.array([weights[key] for key in order])
    return series.take(places), Problem(problem.kind, problem.targets[used[places]], summed / summed.mean())


def _digest(*arrays: NDArray[Any]) -> bytes:
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=16).digest()
