"""What is refused or warned of when X and times are read: finding, place and remedy."""

import warnings

import numpy as np
import pytest
import torch
from alphabet_learn.errors import LearnError
from alphabet_learn.series import read_series
from scipy import sparse

NAN, INF = np.nan, np.inf
CUBE = np.zeros((3, 2, 4))
WITH_INF = CUBE.copy()
WITH_INF[2, 1, 3] = -INF
HUGE = CUBE.copy()
HUGE[1, 0, 2] = 1e300
WITH_DICT = np.zeros((2, 3)).astype(object)
WITH_DICT[0, 0] = {"foo": "bar"}
IN_CELLS = np.empty((2, 1), dtype=object)
IN_CELLS[0, 0], IN_CELLS[1, 0] = np.zeros(3), np.zeros(4)

BAD_DATA = [
    (WITH_INF, {}, ["-inf", "series 2, channel 1, position 3", "NaN if it is missing"]),
    (HUGE, {}, ["1e+300", "float32", "series 1, channel 0, position 2", "rescale"]),
    (np.zeros(5), {}, ["Reshape your data", "1D"]),
    ([1.0, 2.0, 3.0], {}, ["Reshape your data", "list of 3 numbers"]),
    (np.array([1.0, None], dtype=object), {}, ["Reshape your data"]),
    (3.0, {}, ["Reshape your data"]),
    (None, {}, ["NoneType", "(n, channels, time)"]),
    ("text", {}, ["str", "(n, channels, time)"]),
    (np.zeros((0, 3)), {}, ["0 sample(s) (shape=(0, 3)) while a minimum of 1 is required"]),
    ([], {}, ["0 sample(s)"]),
    (np.zeros((12, 0)), {}, ["0 feature(s) (shape=(12, 0)) while a minimum of 1 is required."]),
    (np.zeros((12, 0, 3)), {}, ["0 feature(s)"]),
    (np.zeros((1, 2, 3, 4)), {}, ["4 axes", "(n, channels, time)"]),
    ([np.zeros(3), np.zeros(0)], {}, ["series 1 is empty", "leave it out"]),
    ([np.zeros((1, 2, 3))], {}, ["series 0 has shape (1, 2, 3)"]),
    ([np.zeros((2, 3)), np.zeros((3, 3))], {}, ["series 0 has 2 channels", "series 1 has 3", "swapped", "x.T"]),
    ([np.zeros((2, 3)), np.zeros((3, 5))], {}, ["series 0 has 2 channels", "series 1 has 3", "NaN"]),
    ([[[1, 2], [3]]], {}, ["series 0 is not rectangular"]),
    (np.zeros((2, 3), dtype=complex), {}, ["Complex data not supported"]),
    ([np.zeros(3, dtype=complex)], {}, ["Complex data not supported", "series 0"]),
    (torch.zeros(2, 3, dtype=torch.complex64), {}, ["Complex data not supported"]),
    ([["a", "b"], ["c", "d"]], {}, ["series 0 holds text"]),
    (np.array([["1", "2"]], dtype=object), {}, ["text"]),
    (np.zeros((2, 3), dtype="datetime64[s]"), {}, ["dates", "times="]),
    (IN_CELLS, {}, ["arrays in its cells", "list of (channels, time)"]),
    (CUBE, {"channels": 3}, ["2 channels", "fitted on 3", "NaN"]),
    (CUBE, {"channels": 4}, ["2 channels", "fitted on 4", "swapped", "X.transpose(0, 2, 1)"]),
    (list(CUBE), {"channels": 4}, ["swapped", "[x.T for x in X]"]),
    (np.zeros((5, 3)), {"channels": 3}, ["1 channels", "fitted on 3", "(n, 3, time)"]),
]
BAD_TIMES = [
    ([0.0, 1.0, 3.0, 2.0], ["series 0", "position 3", "from 3.0 to 2.0", "sort"]),
    ([0.0, 1.0, NAN, 2.0], ["series 0", "nan", "position 2", "finite"]),
    ([NAN, 1.0, 1.5, 2.0], ["series 0", "nan", "position 0"]),
    ([-INF, 1.0, 1.5, 2.0], ["series 0", "-inf", "position 0"]),
    ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 5, 1, 9]], ["series 2", "position 2", "from 5 to 1"]),
    ([0.0, 1.0, 2.0], ["(3,)", "(4,)", "(3, 4)"]),
    (np.zeros((2, 4)), ["(2, 4)", "(3, 4)"]),
    ([[0, 1, 2, 3], [0, 1, 2, 3]], ["times holds 2 series", "X holds 3"]),
    ([[0, 1, 2, 3], [0, 1, 2, 3], [0, 1]], ["times of series 2", "(2,)", "4 time steps"]),
    (["a", "b", "c", "d"], ["numbers or datetime64", "pandas.to_datetime"]),
    ([np.array([0, 1, 2, 3]), np.array([0, 1, 2, 3]), np.zeros(4, "datetime64[s]")], ["mixes numbers with dates"]),
    (np.array(["2026-01-01", "NaT", "2026-01-02", "2026-01-03"], "datetime64[D]"), ["NaT", "position 1"]),
    (np.ones(4, dtype=bool), ["bool"]),
    (np.ones(4, dtype=complex), ["complex"]),
]


@pytest.mark.parametrize(("data", "options", "words"), BAD_DATA)
def test_the_message_names_finding_place_and_remedy(data, options, words):
    with pytest.raises(LearnError) as caught:
        read_series(data, **options)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(("times", "words"), BAD_TIMES)
def test_wrong_times_are_refused_with_their_place(times, words):
    with pytest.raises(LearnError) as caught:
        read_series(CUBE, times=times)
    assert all(word in str(caught.value) for word in words), caught.value


def test_shared_times_need_series_of_equal_length():
    with pytest.raises(LearnError, match="differ in length"):
        read_series([[1.0, 2.0], [1.0]], times=np.array([0.0, 1.0]))


@pytest.mark.parametrize("data", [sparse.csr_array(np.eye(3)), sparse.coo_matrix(np.eye(3)), torch.eye(3).to_sparse()])
def test_sparse_input_is_refused_as_scikit_learn_does(data):
    with pytest.raises(TypeError, match="sparse") as caught:
        read_series(data)
    assert isinstance(caught.value, LearnError)


def test_values_that_are_no_numbers_are_a_type_error_as_in_scikit_learn():
    with pytest.raises(TypeError, match=r"argument must be .* string.* number") as caught:
        read_series(WITH_DICT)
    assert isinstance(caught.value, LearnError)


@pytest.mark.parametrize("shape", [(4, 1000, 3), (4, 100, 1)])
def test_many_channels_of_few_steps_are_warned_of(shape):
    with pytest.warns(UserWarning, match=r"axes are swapped, pass X.transpose\(0, 2, 1\)"):
        read_series(np.zeros(shape))
    read_series(np.zeros(shape), channels=shape[1])  # known from fitting: no warning


@pytest.mark.parametrize("shape", [(2, 963, 144), (2, 1345, 270), (2, 200, 30), (2, 144, 62), (2, 10, 1)])
def test_wide_tasks_of_the_archives_are_not_warned_of(shape):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_series(np.zeros(shape))
    assert caught == []


@pytest.mark.parametrize("value", [3e38, -3e38, 2e37])
def test_a_value_whose_sums_would_not_be_finite_is_refused(value):
    with pytest.raises(LearnError, match=r"too large.*series 0, channel 0, position 1.*rescale"):
        read_series(np.array([[0.0, value, 1.0]], np.float32))


def test_a_channel_that_float32_does_not_resolve_is_refused_when_fitting():
    values = np.random.default_rng(0).standard_normal((4, 2, 30))
    values[:, 1] += 1e8
    with pytest.raises(LearnError, match=r"channel 1 of X varies by only .* subtract an offset"):
        read_series(values)
    read_series(values, channels=2)
    with pytest.raises(LearnError, match=r"channel 1 of X varies by only .* subtract an offset"):
        read_series(values, channels=2, deviation=np.ones(2))
    read_series(values, channels=2, deviation=np.array([1.0, 1e4]))  # beside which rounding is small
    outlier = np.zeros((1, 2, 9))
    outlier[0, 1, 4] = 1e9 + 0.3
    for fine in (np.full((1, 2, 9), 1e9 + 0.3), outlier, np.full((1, 2, 9), 7.0) + 1e-7 * np.arange(9)):
        read_series(fine, channels=2, deviation=np.ones(2))
    for fine in (values.astype(np.float32), values[:, :1] + 1e3, np.full((2, 1, 9), 0.1) + 1e-17 * np.arange(9)):
        read_series(fine)
