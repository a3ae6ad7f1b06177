from functools import cache
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from alphabet_learn.closed_form import ClosedForm
from alphabet_learn.errors import LearnError
from alphabet_learn.explaining import explain
from alphabet_learn.picturing import plot_bars, plot_map, plot_poles, plot_time
from alphabet_learn.problem import Problem
from alphabet_learn.recipe import Recipe
from alphabet_learn.series import read_series
from alphabet_learn.trained import Trained

matplotlib.use("Agg")
METHODS = ("closed form", "trained")


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    matplotlib.pyplot.close("all")


@cache
def explained(method, timed=False, ensemble=1):
    """An estimator and its explanation of series with gaps and of unequal length."""
    draw = np.random.default_rng(3)
    values = draw.normal(size=(12, 2, 40)).cumsum(axis=2)
    values[draw.random(values.shape) < 0.1] = np.nan
    values[2, :, 30:] = np.nan
    series = read_series(values, times=0.1 * np.cumsum(draw.uniform(0.5, 1.5, (12, 40)), axis=1) if timed else None)
    engine = (
        ClosedForm(Recipe(banks_per_view=2, modes=32))
        if method == "closed form"
        else Trained(sizes=((8, 4),), epochs=2, budget_seconds=None, ensemble=ensemble)
    )
    engine.fit(series, Problem("classification", (np.arange(12)[:, None] % 2).astype(float), np.ones(12)), seed=0)
    classes = np.array(["low", "high"])
    estimator = SimpleNamespace(engine_=engine, kind_="classification", classes_=classes, timed_=timed, dated_=False)
    return estimator, explain(estimator, series)


def drawn(axes):
    """The figure, drawn, so that whatever cannot be drawn or laid out has raised or warned."""
    axes.figure.canvas.draw()
    return axes


@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_a_map_has_its_unit_on_both_axes(method, timed):
    _, why = explained(method, timed)
    axes = drawn(plot_map(why, 2))
    unit = "in your unit of time" if timed else "samples"
    assert (axes.get_xlabel(), axes.get_ylabel()) == (f"period ({unit})", f"memory ({unit})")
    assert axes.get_title().startswith("score of high over low: ")


def test_a_map_of_many_poles_sums_them_by_cell():
    _, why = explained("closed form")
    assert len(why.poles) > 200
    cells = plot_map(why, 0).collections[0].get_array()
    assert np.nansum(cells) == pytest.approx(why.margin[0] - why.baseline[0])


@pytest.mark.parametrize("by", [None, "pole", "period", "memory", "channel", "view", "kind"])
@pytest.mark.parametrize("method", METHODS)
def test_bars_add_up_to_the_last_one(method, by):
    _, why = explained(method)
    axes = drawn(plot_bars(why, 1, by=by))
    numbers = [float(text.get_text()) for text in axes.texts]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.01 * max(map(abs, numbers)) * len(numbers))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert (names[0], names[-1]) == ("baseline", "score of high over low")
    assert len(names) == len(numbers)


def test_a_bar_beyond_all_proportion_is_cut_off_and_said_so():
    _, why = explained("closed form")
    largest = np.abs(why.contributions).max(axis=1)
    index = int(np.argmax(np.abs(why.margin) / largest))
    assert abs(why.margin[index]) > 8 * largest[index]
    axes = drawn(plot_bars(why, index, by="pole"))
    assert axes.get_xlabel() == "contribution (hatched bars are cut off)"
    assert axes.patches[-1].get_hatch() == "////"


@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_a_series_is_drawn_above_its_strongest_poles(method, timed):
    _, why = explained(method, timed)
    figure = plot_time(why, 2, top=3)
    figure.canvas.draw()
    assert len(figure.axes) == 2 + 3
    times = figure.axes[0].lines[0].get_xdata()
    assert len(times) == 30
    assert times[-1] == (why.series.times[2, 29] if timed else 29)
    assert figure.axes[2].get_title(loc="left").startswith(why[2].strongest(1)[0][0].name)
    assert figure.axes[-1].get_xlabel() == ("time (in your unit)" if timed else "sample")


def test_a_trained_models_poles_have_a_panel_for_each_model():
    estimator, why = explained("trained", ensemble=2)
    figure = plot_poles(estimator, why)
    figure.canvas.draw()
    assert len(figure.axes) == 2
    assert figure.axes[0].get_xlabel() == "−1 / memory (per sample)"
    assert len(plot_poles(estimator).axes) == 2


def test_the_closed_forms_poles_are_not_drawn_in_one_plane():
    estimator, why = explained("closed form")
    with pytest.raises(LearnError, match="use plot_map"):
        plot_poles(estimator, why)


def test_a_map_without_any_contribution_is_drawn():
    _, why = explained("trained")
    nothing = why[:1]
    nothing.contributions[:] = 0.0
    assert drawn(plot_map(nothing)).has_data()
    assert all(patch.get_width() == 0 for patch in drawn(plot_bars(nothing)).patches[1:-1])
