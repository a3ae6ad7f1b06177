"""Views: changes and averages, with masks, unequal lengths and times, against plain loops."""

import numpy as np
import pytest
from alphabet_learn.recipe import View
from alphabet_learn.series import Series, read_series
from alphabet_learn.views import look
from hypothesis import given
from hypothesis import strategies as st

CHANGES = View("changes")


def draw_series(seed, count=4, length=11, channels=2, missing=0.2, timed=False):
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal((channels, int(rng.integers(1, length + 1)))) for _ in range(count)]
    for each in values:
        each[rng.random(each.shape) < missing] = np.nan
        each[:, 0] = each[:, -1] = 1.0  # each series keeps its length
    times = [np.cumsum(rng.uniform(0.5, 2.0, each.shape[1])) for each in values] if timed else None
    return values, times, read_series(values, times=times)


def average_by_loops(values, span):
    """Means over blocks of tokens of what is observed there, NaN where nothing is."""
    channels, length = values.shape
    out = np.full((channels, -(-length // span)), np.nan)
    for c in range(channels):
        for block in range(out.shape[1]):
            seen = [v for v in values[c, block * span : (block + 1) * span] if not np.isnan(v)]
            if seen:
                out[c, block] = sum(seen) / len(seen)
    return out


def as_array(series, index):
    """One series (channels, time) with NaN where it is missing."""
    length = int(series.lengths[index])
    values = series.values[index, :length].T.astype(np.float64)
    if series.observed is not None:
        values[~series.observed[index, :length].T] = np.nan
    return values


@given(seed=st.integers(0, 200), span=st.sampled_from([2, 4]), timed=st.booleans())
def test_averages_are_means_of_what_is_observed(seed, span, timed):
    values, _, series = draw_series(seed, timed=timed)
    seen = look(series, View("averages", span))
    assert seen is not None
    if series.length == 1:
        assert seen is series
        return
    for i, each in enumerate(values):
        np.testing.assert_allclose(as_array(seen, i), average_by_loops(each, span), rtol=1e-5, atol=1e-6)
        if timed:
            places = list(range(0, each.shape[1], span))
            np.testing.assert_array_equal(seen.times[i, : len(places)], series.times[i, places])


@given(seed=st.integers(0, 200))
def test_changes_are_differences_of_what_is_observed(seed):
    values, _, series = draw_series(seed)
    seen = look(series, CHANGES)
    if series.length == 1:
        assert seen is None
        return
    for i, each in enumerate(values):
        np.testing.assert_allclose(as_array(seen, i), np.diff(each, axis=1), rtol=1e-5, atol=1e-6)


def test_nothing_behind_the_end_of_a_series_is_seen():
    _, _, series = draw_series(3)
    for view in (CHANGES, View("averages", 2), View("averages", 4)):
        seen = look(series, view)
        assert (seen.values[~seen.valid] == 0).all()


def test_a_series_of_one_token_has_no_change():
    assert look(Series(np.ones((3, 1, 1), np.float32)), CHANGES) is None
    short = read_series([np.ones(1), np.arange(5.0)])
    assert look(short, CHANGES).lengths.tolist() == [0, 4]


@pytest.mark.parametrize("view", [View("values"), CHANGES, View("averages", 4)])
def test_views_have_names(view):
    assert view.name in {"values", "changes", "averages of 4"}


@given(seed=st.integers(0, 200), span=st.sampled_from([2, 4]))
def test_the_clock_of_averages_never_depends_on_the_other_series(seed, span):
    values, times, series = draw_series(seed, timed=True)
    together = look(series, View("averages", span))
    for i, each in enumerate(values):
        if each.shape[1] == 1:
            continue
        alone = look(read_series([each], times=[times[i]]), View("averages", span))
        length = alone.length
        np.testing.assert_array_equal(together.time_delta[i, :length], alone.time_delta[0])
        assert (together.time_delta[i, length:] == 0).all()
