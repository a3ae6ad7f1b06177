"""Penalties that are searched one by one give what all of them give."""

import hypothesis.strategies as st
import numpy as np
import pytest
from alphabet_learn.kernel_ridge import find_valley, fit_kernel
from alphabet_testing.timing import interleaved_ratio
from hypothesis import assume, given, settings
from threadpoolctl import threadpool_limits

EVER = 10**9  # rows from which on fits by eigenvectors would search


def make_case(rows, width, outputs=2, *, seed=0, zeros=0, noise=1.0):
    """A kernel (N, N) of standardized features, targets that a part of them explains, and weights."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(rows, 5))
    features = np.tanh(latent @ rng.normal(size=(5, width))) + 0.3 * rng.normal(size=(rows, width))
    targets = latent[:, :1] + noise * rng.normal(size=(rows, outputs)) + np.arange(outputs)
    weights = rng.uniform(0.2, 3, rows)
    weights[rng.permutation(rows)[:zeros]] = 0
    return features @ features.T, targets, weights


def assert_same(found, whole, kernel, targets, weights):
    """Both fits agree to what float64 leaves of them.

    A factor and an eigenvalue problem err by some n times 1e-16 of the largest eigenvalue, which is at most the
    matrix's norm; what is solved has no eigenvalue below the penalty. So solutions, and residuals that are as large as
    targets, differ by the ratio of the two. Penalties that are tried are at most a factor of 10 below the best.
    """
    np.testing.assert_array_equal(found.penalty, whole.penalty)
    largest = np.linalg.norm(kernel * np.sqrt(weights[:, None] * weights))
    tolerance = len(kernel) * np.finfo(np.float64).eps * (1 + largest / whole.penalty[0])
    assert tolerance < 1e-4  # else nothing would be compared
    tried = ~np.isnan(found.errors[:, 0])
    np.testing.assert_allclose(found.errors[tried], whole.errors[tried], rtol=10 * tolerance)
    for name in ("coefficients", "intercept", "predictions"):
        expected = getattr(whole, name)
        scale = np.abs(expected).max() + (np.abs(targets).max() if name == "predictions" else 0)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize(("rows", "width"), [(2, 3), (3, 5), (40, 200), (300, 700), (60, 20)])
@pytest.mark.parametrize("zeros", [0, 7])
@pytest.mark.parametrize("noise", [0.1, 1.0, 30.0])
def test_a_search_gives_what_all_penalties_give(rows, width, zeros, noise):
    case = make_case(rows, width, zeros=min(zeros, rows - 2), noise=noise)
    assert_same(fit_kernel(*case, search_from=2), fit_kernel(*case, search_from=EVER), *case)


@pytest.mark.slow
def test_a_search_over_thousands_of_rows_gives_the_same_and_tries_few_penalties():
    case = make_case(2500, 4000, seed=3)
    found, whole = fit_kernel(*case), fit_kernel(*case, search_from=EVER)
    assert 2 <= np.count_nonzero(~np.isnan(found.errors[:, 0])) <= 5
    assert not np.isnan(whole.errors).any()
    assert_same(found, whole, *case)


@pytest.mark.slow
def test_a_search_over_thousands_of_rows_is_faster():
    case = make_case(3000, 3500)
    with threadpool_limits(1):
        assert interleaved_ratio(lambda: fit_kernel(*case, search_from=EVER), lambda: fit_kernel(*case), rounds=1) > 1.2


def test_penalties_that_rounding_drowns_are_passed_over():
    kernel, targets, weights = make_case(30, 50)
    found = fit_kernel(kernel * 1e20, targets, weights, penalties=np.array([1e-9, 1e-3, 1e24]), search_from=2)
    assert found.penalty[0] == 1e24
    assert np.isfinite(found.predictions).all()


def test_where_rounding_drowns_all_penalties_eigenvectors_are_left():
    kernel, targets, weights = make_case(30, 5)
    options = {"penalties": np.array([1e-9, 1e-8])}
    found = fit_kernel(kernel * 1e20, targets, weights, search_from=2, **options)
    whole = fit_kernel(kernel * 1e20, targets, weights, search_from=EVER, **options)
    np.testing.assert_array_equal(found.predictions, whole.predictions)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.data())
def test_the_walk_ends_where_no_neighbour_is_lower_and_judges_nothing_twice(heights, data):
    judged = []

    def judge(index):
        judged.append(index)
        return float(heights[index])

    end = find_valley(judge, data.draw(st.integers(0, len(heights) - 1)), len(heights))
    around = heights[max(end - 1, 0) : end + 2]
    assert heights[end] == min(around)
    assert end + 1 == len(heights) or heights[end + 1] > heights[end]  # of equals the largest
    assert len(judged) == len(set(judged))


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), max_size=9), st.lists(st.integers(1, 9), max_size=9), st.data())
def test_the_walk_finds_the_bottom_of_one_valley_from_anywhere(left, right, data):
    heights = np.array([*(1 + np.cumsum(left))[::-1], 1, *(1 + np.cumsum(right))], float)
    assume(len(heights))
    start = data.draw(st.integers(0, len(heights) - 1))
    assert find_valley(lambda index: heights[index], start, len(heights)) == len(left)
