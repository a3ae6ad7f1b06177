"""The k strongest poles alone, with a head fitted anew in closed form, and what that costs.

A pole's strength is the mean |contribution| to a score over the training series and over all outputs, values in units
of their deviation. The strongest are kept; ridge regression on their seven coordinates each, its penalty chosen by
leave-one-out, gives the new head and its calibration. Banks without a kept pole are dropped; the others run as before,
since their poles share a norm, and the head does not read what was not kept.

The cost is told by leave-one-out: every series predicted by a head that is fitted to the others, once on all poles and
once on those that are kept. Banks are not fitted anew. Those of the closed form are drawn at random, and their lifts
have seen eight series without labels, so it is nearly what new series would show. Poles of the trained method were
trained on these labels: both numbers flatter it, and only their difference says something. Choosing poles by what they
contribute to the same series flatters the kept ones somewhat, with either method.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from alphabet_core.bounds import affine_head
from numpy.typing import NDArray

from alphabet_learn.banks import Floats, Lens, count_coordinates
from alphabet_learn.calibration import Calibration, fit_calibration
from alphabet_learn.closed_form import (
    SMALLEST_SPREAD,
    ClosedForm,
    Doubles,
    Head,
    in_units,
    merge_duplicates,
    scale_targets,
)
from alphabet_learn.errors import LearnError
from alphabet_learn.kernel_ridge import add_to_kernel, fit_kernel, head_of
from alphabet_learn.poles import count_poles, lenses_of, read_head
from alphabet_learn.problem import Problem
from alphabet_learn.recipe import RECIPE
from alphabet_learn.ridge import Ridge, fit_gram, standardize_rows
from alphabet_learn.series import Series
from alphabet_learn.trained import Trained

Rows = Callable[[], Iterable[Floats]]  # blocks (rows, P) of all series' coordinates, from the first to the last
NUMBERS_KEPT = 1 << 27  # coordinates that are kept in memory, half a gigabyte of them; more are computed once per pass
ROWS_AT_ONCE = 512
# A trained model's head is float32 and not centred: it cannot tell apart what varies less than this by its mean.
SMALLEST_SPREAD_TRAINED = 1e-4


class Cost(TypedDict):
    """What pruning costs, by leave-one-out: plain data, which a saved model keeps.

    measure: "accuracy", the share of series whose class is right, or of labels that are; or "root mean squared error",
    in the target's units. all_poles, kept_poles: the measure with either. poles, kept: how many there are.
    """

    measure: str
    all_poles: float
    kept_poles: float
    poles: int
    kept: int


def prune(estimator: Any, k: int, series: Series | None = None, problem: Problem | None = None) -> Any:
    """A copy of a fitted estimator that reads its k strongest poles alone; its `cost_` (a `Cost`) says what that costs.

    Models do not keep their training series, which are therefore given again.
    """
    if series is None or problem is None:
        raise LearnError("prune needs the training series, which a model does not keep: pass X and y, prune(k, X, y).")
    engine: ClosedForm | Trained = estimator.engine_
    lenses, head = lenses_of(engine), read_head(engine)
    poles = sum(count_poles(bank) for lens in lenses for bank in lens.banks)
    effect = np.abs(head.factor[:, None] * head.weights).reshape(poles, -1)
    live = np.flatnonzero(effect.any(axis=1))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= max(1, len(live)):
        raise LearnError(f"k is {k!r}: pass how many of the model's {len(live)} poles to keep, at least 1.")
    if len(live) == 0:
        raise LearnError("No score depends on any pole, so none can be pruned: the training series were all alike.")

    if problem.outputs != head.weights.shape[1]:
        raise LearnError(
            f"y has {problem.outputs} outputs, but the model was fitted on {head.weights.shape[1]}: pass the targets "
            "that it was fitted on."
        )

    series, problem = merge_duplicates(series, problem)
    size = len(head.mean) // poles
    everything = _coordinates_of(live, size)
    rows = _describe_rows(lenses, everything, series)
    in_deviations = replace(head, weights=head.weights / scale_targets(problem)[1])
    strength = _measure_strength(rows, _part_of(in_deviations, everything), problem.weights, len(live))
    strongest = np.sort(np.argsort(-strength, kind="stable")[:k])
    columns = _coordinates_of(strongest, size)

    def kept_rows() -> Iterable[Floats]:
        return (block[:, columns] for block in rows())

    closed = isinstance(engine, ClosedForm)
    low, high, count = (engine.recipe if isinstance(engine, ClosedForm) else RECIPE).penalties
    penalties, floor = np.logspace(low, high, count), SMALLEST_SPREAD if closed else SMALLEST_SPREAD_TRAINED
    before = _refit(rows, problem, penalties, floor)[1]
    part, ridge = _refit(kept_rows, problem, penalties, floor)
    new = _New(part, everything[columns], ridge, problem)

    pruned = copy.copy(estimator)
    pruned.engine_ = _prune_closed_form(engine, new) if isinstance(engine, ClosedForm) else _prune_trained(engine, new)
    measure, (all_poles, kept_poles) = _judge(problem, before.predictions, ridge.predictions)
    pruned.cost_ = Cost(measure=measure, all_poles=all_poles, kept_poles=kept_poles, poles=len(live), kept=int(k))
    return pruned


class _New(NamedTuple):
    """A head on the coordinates at some places, and the fit that it comes from."""

    head: Head
    places: NDArray[np.intp]
    ridge: Ridge
    problem: Problem

    def widen(self, coordinates: int) -> Head:
        """The head on all coordinates, zero at the others."""
        mean, factor = np.zeros(coordinates), np.zeros(coordinates)
        weights = np.zeros((coordinates, self.head.weights.shape[1]))
        mean[self.places], factor[self.places], weights[self.places] = (
            self.head.mean,
            self.head.factor,
            self.head.weights,
        )
        return Head(mean, factor, weights, self.head.intercept)

    def calibrate(self) -> Calibration | None:
        return None if self.problem.kind == "regression" else fit_calibration(self.ridge.predictions, self.problem)


def _coordinates_of(poles: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """The places of the coordinates of some poles, `size` for each pole, side by side."""
    return np.asarray((poles[:, None] * size + np.arange(size)).ravel())


def _part_of(head: Head, places: NDArray[np.intp]) -> Head:
    return Head(head.mean[places], head.factor[places], head.weights[places], head.intercept)


def _describe_rows(lenses: tuple[Lens, ...], places: NDArray[np.intp], series: Series) -> Rows:
    """What gives the coordinates at these places, some rows at a time, as often as it is called."""

    def describe() -> Iterable[Floats]:
        for start in range(0, series.count, ROWS_AT_ONCE):
            few = series.take(np.arange(start, min(start + ROWS_AT_ONCE, series.count)))
            yield np.concatenate([block for lens in lenses for block in lens.describe(few)], axis=1)[:, places]

    if series.count * len(places) > NUMBERS_KEPT:
        return describe
    kept = list(describe())
    return lambda: kept


def _measure_strength(rows: Rows, head: Head, weights: Doubles, poles: int) -> Doubles:
    """The weighted mean over series and outputs of |contribution|, (poles,)."""
    strength, start = np.zeros(poles), 0
    for block in rows():
        standardized = head.standardize(block, 0)
        weight = weights[start : start + len(block)]
        start += len(block)
        for column in head.weights.T:
            contributions = (standardized * column).reshape(len(block), poles, -1).sum(axis=2)
            strength += weight @ np.abs(contributions)
    return np.asarray(strength / (weights.sum() * head.weights.shape[1]))


def _refit(rows: Rows, problem: Problem, penalties: Doubles, floor: float) -> tuple[Head, Ridge]:
    """The head on these coordinates, by whichever of the two forms of ridge regression is smaller."""
    targets, unit = scale_targets(problem)
    mean, factor = standardize_rows(rows(), problem.weights, floor=floor)

    def scaled() -> Iterable[Doubles]:
        return ((block - mean) * factor for block in rows())

    if len(targets) > len(mean):
        ridge = fit_gram(scaled, targets, problem.weights, penalties=penalties)
        return in_units(Head(mean, factor, ridge.coefficients, ridge.intercept), ridge, unit)
    block = np.concatenate([part.astype(np.float32) for part in scaled()])
    kernel = np.zeros((len(block), len(block)))
    add_to_kernel(kernel, block)
    ridge = fit_kernel(kernel, targets, problem.weights, penalties=penalties)
    return in_units(Head(mean, factor, head_of(block, ridge), ridge.intercept), ridge, unit)


def _judge(problem: Problem, *predictions: Doubles) -> tuple[str, list[float]]:
    """The name of the measure, and it for each of the predictions (N, K)."""
    if problem.kind == "regression":
        return "root mean squared error", [float(np.sqrt(np.mean((p - problem.targets) ** 2))) for p in predictions]
    if problem.kind == "multilabel" or problem.outputs == 1:
        return "accuracy", [float(np.mean((p > 0) == (problem.targets > 0.5))) for p in predictions]
    right = problem.targets.argmax(axis=1)
    return "accuracy", [float(np.mean(p.argmax(axis=1) == right)) for p in predictions]


def _prune_closed_form(engine: ClosedForm, new: _New) -> ClosedForm:
    """The engine with a new head, without the banks that it does not read."""
    lenses, kept, first = [], [], 0
    for lens in engine.lenses:
        banks = []
        for bank in lens.banks:
            places = np.arange(first, first + count_coordinates(bank))
            first += len(places)
            if np.isin(places, new.places).any():
                banks.append(bank)
                kept.append(places)
        if banks:
            lenses.append(replace(lens, banks=tuple(banks)))
    pruned = copy.copy(engine)
    pruned.lenses = tuple(lenses)
    pruned.head = _part_of(new.widen(first), np.concatenate(kept))
    pruned.penalty = float(new.ridge.penalty[0])
    pruned.leave_one_out_error = float(np.nanmin(new.ridge.errors.mean(axis=1)))
    pruned.calibration = new.calibrate()
    return pruned


def _prune_trained(engine: Trained, new: _New) -> Trained:
    """The engine whose models have a new head between them, without those that it does not read."""
    width = count_coordinates(engine.models[0])
    head = new.widen(width * len(engine.models))
    kept = np.unique(new.places // width)
    slopes = head.factor[:, None] * head.weights  # (P, K) of coordinates as they are
    deviation = np.where(engine.target_deviation > 0, engine.target_deviation, 1.0)  # a constant output stays constant
    offset = (head.intercept - head.mean @ slopes - engine.target_mean) / deviation
    slopes = slopes / deviation
    members = []
    for i in kept:
        model = copy.deepcopy(engine.models[i])
        # The engine averages the models' outputs, each of which therefore carries all of the offset.
        weight, bias = len(kept) * slopes[i * width : (i + 1) * width].T, offset
        if engine.kind == "classification" and model.config.outputs == 2:
            weight, bias = np.concatenate((-weight, weight)) / 2, np.concatenate((-bias, bias)) / 2
        affine = affine_head(model)
        with torch.no_grad():
            affine.weight.copy_(torch.from_numpy(weight))
            affine.bias.copy_(torch.from_numpy(bias))
        members.append(replace(engine.members[i], model=model))
    pruned = copy.copy(engine)
    pruned.members, pruned.models = members, [member.model for member in members]
    pruned.baseline = [engine.baseline[i] for i in kept]
    pruned.calibration = new.calibrate()
    return pruned
