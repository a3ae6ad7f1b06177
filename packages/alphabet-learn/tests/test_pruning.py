import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.explaining import explain
from alphabet_learn.problem import Problem
from alphabet_learn.pruning import _refit, prune
from alphabet_learn.recipe import Recipe
from alphabet_learn.series import Series
from alphabet_learn.trained import Trained

METHODS = ("closed form", "trained")
TASKS = ("binary", "multiclass", "multilabel", "regression")
COUNT = 24


def waves():
    """Noisy sines of three frequencies."""
    draw = np.random.default_rng(2)
    angle = (0.3 + 0.5 * (np.arange(COUNT) % 3))[:, None, None] * np.arange(40)[None, :, None]
    values = np.sin(angle + draw.uniform(0, 6, (COUNT, 1, 2))) + 0.1 * draw.normal(size=(COUNT, 40, 2))
    return Series(values.astype(np.float32))


def targets(task):
    labels = np.arange(COUNT) % 3
    kind, table = {
        "binary": ("classification", labels[:, None] == 1),
        "multiclass": ("classification", labels[:, None] == np.arange(3)),
        "multilabel": ("multilabel", np.stack((labels > 0, labels > 1), axis=1)),
        "regression": ("regression", 1000.0 + 50.0 * labels[:, None]),
    }[task]
    return Problem(kind, table.astype(np.float64), np.ones(COUNT))


def make_engine(method, ensemble=2):
    if method == "closed form":
        return ClosedForm(Recipe(banks_per_view=2, modes=16))
    return Trained(sizes=((8, 4),), epochs=3, budget_seconds=None, ensemble=ensemble)


@cache
def fitted(method, task, ensemble=2):
    engine = make_engine(method, ensemble)
    series, problem = waves(), targets(task)
    engine.fit(series, problem, seed=0)
    classes = np.arange(max(2, problem.outputs))
    return (
        SimpleNamespace(engine_=engine, kind_=problem.kind, classes_=classes, timed_=False, dated_=False),
        series,
        problem,
    )


def right(scores, problem):
    if problem.kind == "classification" and problem.outputs > 1:
        return np.mean(scores.argmax(axis=1) == problem.targets.argmax(axis=1))
    return np.mean((scores > 0) == (problem.targets > 0.5))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_the_pruned_estimator_reads_k_poles_and_predicts(method, task):
    estimator, series, problem = fitted(method, task)
    pruned = prune(estimator, 5, series, problem)
    target = {"multilabel": 1}.get(task)
    why = explain(pruned, series, target=target)
    assert len(why.poles) == 5
    assert {pole.name for pole in why.poles} <= {pole.name for pole in explain(estimator, series, target=target).poles}
    scores = pruned.engine_.scores(series)
    if task == "regression":
        assert np.abs(scores - problem.targets).mean() < 20.0  # of 50 between neighbours
    else:
        assert right(scores, problem) >= 0.8
        assert pruned.engine_.probabilities(series).shape == (COUNT, max(2, problem.outputs))
    assert pruned.cost_["kept"] == 5
    assert json.loads(json.dumps(pruned.cost_)) == pruned.cost_
    assert "cost_" not in vars(estimator)


@pytest.mark.parametrize("method", METHODS)
def test_the_strongest_poles_are_kept(method):
    estimator, series, problem = fitted(method, "binary")
    why = explain(estimator, series)
    expected = {(why.poles[place].name) for place in why.order()[:4]}
    assert {pole.name for pole in explain(prune(estimator, 4, series, problem), series).poles} == expected


@pytest.mark.parametrize("method", METHODS)
def test_an_outputs_unit_does_not_change_which_poles_are_kept(method):
    series = waves()
    values = np.stack((np.arange(COUNT) % 3, np.random.default_rng(5).permutation(np.arange(COUNT) % 2)), axis=1)
    kept = []
    for unit in ([1.0, 1.0], [1.0, 2.0**20]):
        problem = Problem("regression", values * unit, np.ones(COUNT))
        engine = make_engine(method)
        engine.fit(series, problem, seed=0)
        estimator = SimpleNamespace(engine_=engine, kind_="regression", timed_=False, dated_=False)
        kept.append([pole.name for pole in explain(prune(estimator, 6, series, problem), series, target=0).poles])
    assert kept[0] == kept[1]


@pytest.mark.parametrize("task", TASKS)
def test_keeping_every_pole_of_the_closed_form_changes_nothing(task):
    estimator, series, problem = fitted("closed form", task)
    poles = len(explain(estimator, series, target=1 if task == "multilabel" else None).poles)
    pruned = prune(estimator, poles, series, problem)
    before, after = (each.engine_.scores(series) for each in (estimator, pruned))
    assert np.abs(before - after).max() <= 1e-6 * np.abs(before).max()
    assert np.isclose(pruned.engine_.leave_one_out_error, estimator.engine_.leave_one_out_error, rtol=1e-6)
    assert pruned.cost_["all_poles"] == pytest.approx(pruned.cost_["kept_poles"])


def test_banks_without_a_kept_pole_are_dropped():
    estimator, series, problem = fitted("closed form", "binary")
    pruned = prune(estimator, 2, series, problem)
    assert sum(len(lens.banks) for lens in pruned.engine_.lenses) <= 2
    assert pruned.engine_.coordinates == len(pruned.engine_.head.mean)
    assert np.count_nonzero(pruned.engine_.head.factor) <= 14
    alone = prune(fitted("trained", "binary")[0], 1, series, problem)
    assert len(alone.engine_.models) == len(alone.engine_.members) == len(alone.engine_.baseline) == 1


def test_the_cost_is_that_of_leaving_out_one_series_after_the_other():
    """The head alone is fitted anew, on coordinates standardized by all series, at the penalty that all chose."""
    estimator, series, problem = fitted("closed form", "regression")
    pruned = prune(estimator, 1, series, problem)
    lens = pruned.engine_.lenses[0]
    head, penalty = pruned.engine_.head, pruned.engine_.penalty
    read = np.flatnonzero(head.factor)
    x = head.standardize(next(iter(lens.describe(series))), 0)[:, read]
    errors = []
    for i in range(COUNT):
        rest = np.arange(COUNT) != i
        mean_x, mean_y = x[rest].mean(axis=0), problem.targets[rest].mean(axis=0)
        a, b = x[rest] - mean_x, problem.targets[rest] - mean_y
        slope = np.linalg.solve(a.T @ a + penalty * np.eye(len(read)), a.T @ b)
        errors.append(mean_y + (x[i] - mean_x) @ slope - problem.targets[i])
    assert pruned.cost_["measure"] == "root mean squared error"
    assert pruned.cost_["kept_poles"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-4)


def test_a_pruned_estimator_can_be_pruned_again():
    estimator, series, problem = fitted("closed form", "multiclass")
    once = prune(estimator, 20, series, problem)
    twice = prune(once, 3, series, problem)
    assert (twice.cost_["poles"], twice.cost_["kept"]) == (20, 3)
    assert twice.cost_["all_poles"] == pytest.approx(once.cost_["kept_poles"])


def test_coordinates_that_do_not_fit_in_memory_give_the_same(monkeypatch):
    estimator, series, problem = fitted("closed form", "multiclass")
    kept = prune(estimator, 2, series, problem)
    monkeypatch.setattr("alphabet_learn.pruning.NUMBERS_KEPT", 0)
    monkeypatch.setattr("alphabet_learn.pruning.ROWS_AT_ONCE", 5)
    again = prune(estimator, 2, series, problem)
    assert np.abs(kept.engine_.scores(series) - again.engine_.scores(series)).max() <= 1e-5


@pytest.mark.parametrize("k", [0, -1, 10_000, 2.5, True, None])
def test_a_number_of_poles_that_cannot_be_kept_is_told(k):
    estimator, series, problem = fitted("trained", "binary")
    with pytest.raises(LearnError, match="pass how many of the model's 16 poles to keep, at least 1"):
        prune(estimator, k, series, problem)


def test_pruning_without_series_says_what_it_needs():
    estimator, *_ = fitted("trained", "binary")
    with pytest.raises(LearnError, match=r"prune needs the training series.*prune\(k, X, y\)"):
        prune(estimator, 3)


@pytest.mark.parametrize("method", METHODS)
def test_targets_of_another_width_are_told(method):
    estimator, series, problem = fitted(method, "regression")
    wider = Problem("regression", np.repeat(problem.targets, 2, axis=1), problem.weights)
    with pytest.raises(LearnError, match="y has 2 outputs, but the model was fitted on 1"):
        prune(estimator, 3, series, wider)


@pytest.mark.parametrize("count", [12, 40])  # fewer series than coordinates, and more
def test_the_unit_of_one_output_never_matters_to_the_new_head_of_another(count):
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((count, 20))
    values = np.stack([rows @ draw.standard_normal(20), draw.standard_normal(count)], axis=1)
    unit = np.array([1.0, 1e6])
    heads = [
        _refit(lambda: [rows], Problem("regression", values * factor, np.ones(count)), np.logspace(-3, 5, 17), 1e-6)[0]
        for factor in (np.ones(2), unit)
    ]
    np.testing.assert_allclose(heads[1].weights / unit, heads[0].weights, rtol=1e-6, atol=1e-9)
