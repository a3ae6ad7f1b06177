import math
import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from alphabet_learn.clock import counts_tokens
from alphabet_learn.errors import LearnError
from alphabet_learn.series import Series, read_series
from alphabet_testing.models import build_model
from alphabet_testing.timing import interleaved_ratio
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

NAN, INF = np.nan, np.inf
NUMBERS = st.floats(-1e3, 1e3, width=32)
MAYBE_MISSING = NUMBERS | st.just(NAN)


@st.composite
def ragged(draw, missing=False):
    """A list of (channels, time_i) arrays whose last token is observed in at least one channel."""
    channels = draw(st.integers(1, 3))
    series = []
    for length in draw(st.lists(st.integers(1, 7), min_size=1, max_size=5)):
        values = draw(arrays(np.float64, (channels, length), elements=MAYBE_MISSING if missing else NUMBERS))
        values[0, -1] = draw(NUMBERS)
        series.append(values)
    return series


@st.composite
def timed(draw):
    """A ragged list with whole, non-decreasing times, some of them shared."""
    series = draw(ragged(missing=True))
    steps = [draw(arrays(np.int64, values.shape[1], elements=st.integers(0, 2))) for values in series]
    return series, [np.cumsum(step).astype(np.float64) for step in steps]


def padded(series):
    longest = max(values.shape[1] for values in series)
    return np.stack([np.pad(v, ((0, 0), (0, longest - v.shape[1])), constant_values=NAN) for v in series])


def assert_same(one, other):
    for name in ("values", "observed", "valid", "times"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        if left is not None:
            np.testing.assert_array_equal(left, right, err_msg=name)


@given(ragged(missing=True))
def test_a_list_and_an_array_padded_with_nan_are_the_same_series(series):
    assert_same(read_series(series), read_series(padded(series)))


@given(ragged(missing=True), st.integers(1, 4))
def test_more_padding_changes_nothing(series, more):
    array = padded(series)
    longer = np.pad(array, ((0, 0), (0, 0), (0, more)), constant_values=NAN)
    assert_same(read_series(array), read_series(longer))
    assert read_series(longer).lengths.tolist() == [values.shape[1] for values in series]


@given(ragged(missing=True))
def test_every_value_arrives_where_it_was(series):
    got = read_series(series)
    for n, values in enumerate(series):
        length = values.shape[1]
        observed = np.ones((length, len(values)), bool) if got.observed is None else got.observed[n, :length]
        np.testing.assert_array_equal(observed, ~np.isnan(values.T))
        np.testing.assert_array_equal(got.values[n, :length], np.nan_to_num(values.T).astype(np.float32))
        assert not got.values[n, length:].any()
        assert got.observed is None or not got.observed[n, length:].any()
        if got.valid is not None:
            assert got.valid[n].tolist() == [t < length for t in range(got.length)]


@given(timed(), st.randoms(use_true_random=False))
def test_reading_commutes_with_the_order_of_the_series(data, random):
    series, times = data
    order = random.sample(range(len(series)), len(series))
    permuted = read_series([series[i] for i in order], times=[times[i] for i in order])
    assert_same(permuted, read_series(series, times=times).take(order))


@given(timed())
def test_tokens_that_share_an_instant_become_their_mean(data):
    series, times = data
    got = read_series(series, times=times)
    for n, (values, instants) in enumerate(zip(series, times, strict=True)):
        distinct = np.unique(instants)
        assert got.lengths[n] == len(distinct)
        np.testing.assert_array_equal(got.times[n, : len(distinct)], distinct - distinct[0])
        assert (got.times[n, len(distinct) :] == distinct[-1] - distinct[0]).all()
        for t, instant in enumerate(distinct):
            for c, channel in enumerate(values):
                there = channel[(instants == instant) & ~np.isnan(channel)]
                assert got.observed is None or got.observed[n, t, c] == (len(there) > 0)
                if len(there):  # rounding of the float32 result, and of a float32 sum's terms near cancellation
                    assert got.values[n, t, c] == pytest.approx(there.mean(), rel=2e-7, abs=1e-4)
                else:
                    assert got.values[n, t, c] == 0


@given(timed())
def test_merging_keeps_the_sum_over_observations(data):
    series, times = data
    got = read_series(series, times=times)
    for n, (values, instants) in enumerate(zip(series, times, strict=True)):
        _, group = np.unique(instants, return_inverse=True)
        for c, channel in enumerate(values):
            counts = np.bincount(group[~np.isnan(channel)], minlength=got.lengths[n])
            weighted = (got.values[n, : got.lengths[n], c].astype(np.float64) * counts).sum()
            assert weighted == pytest.approx(np.nansum(channel), abs=1e-3)


@given(timed())
def test_the_first_step_is_the_median_of_the_others(data):
    got = read_series(data[0], times=data[1])
    steps = got.time_delta
    np.testing.assert_array_equal(np.cumsum(steps, axis=1) - steps[:, :1], got.times)
    for row in steps:
        positive = row[1:][row[1:] > 0]
        assert row[0] == (np.median(positive) if len(positive) else 1.0)


def test_all_containers_give_the_same_series():
    array = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    objects = np.empty(4, dtype=object)
    objects[:] = list(array)
    containers = [
        array,
        array.astype(np.float64),
        array.astype(np.int16),
        np.asfortranarray(array),
        array.astype(object),
        list(array),
        tuple(array),
        array.tolist(),
        objects,
        torch.from_numpy(array),
        torch.from_numpy(array).double().requires_grad_(),
        torch.from_numpy(array).bfloat16(),
        list(torch.from_numpy(array)),
    ]
    for data in containers:
        assert_same(read_series(data), Series(array.transpose(0, 2, 1)))


def test_one_channel_may_go_without_its_axis():
    flat = np.arange(12.0).reshape(4, 3)
    for data in (flat, flat.tolist(), list(flat), torch.from_numpy(flat), [row[None] for row in flat], flat > 4):
        expected = np.asarray(flat > 4 if data is not flat and np.asarray(data).dtype == bool else flat)
        assert_same(read_series(data), Series(expected[:, :, None].astype(np.float32)))
    assert read_series([[1, 2, 3], [4, 5], np.array([[6]])]).lengths.tolist() == [3, 2, 1]


def test_pandas_frames_and_columns_of_arrays_are_read():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": pd.array([3, None], dtype="Int64"), "c": [5.0, 6.0]})
    assert_same(read_series(frame), read_series([[1.0, 3.0, 5.0], [2.0, NAN, 6.0]]))
    for dtype in (int, bool, np.float32, "Float64"):
        assert_same(read_series(pd.DataFrame(np.eye(2), dtype=dtype)), read_series(np.eye(2)))
    assert_same(read_series(pd.Series([np.arange(3), np.arange(2)])), read_series([np.arange(3), np.arange(2)]))


def test_none_and_masked_entries_are_missing():
    expected = read_series([[1.0, NAN, 3.0]])
    assert_same(read_series([[1.0, None, 3.0]]), expected)
    assert_same(read_series(np.ma.masked_array([[1, 2, 3]], [[0, 1, 0]])), expected)


def test_leading_and_inner_gaps_stay_tokens_and_trailing_ones_end_the_series():
    got = read_series([[[NAN, 1.0, NAN, 2.0, NAN]], [[1.0, 2.0, 3.0, 4.0, 5.0]]])
    assert got.lengths.tolist() == [4, 5]
    assert got.observed[0, :, 0].tolist() == [False, True, False, True, False]
    one_channel_left = read_series([[[1.0, 2.0], [1.0, NAN]]])
    assert one_channel_left.valid is None
    assert one_channel_left.lengths.tolist() == [2]


def test_the_input_is_copied_and_may_be_read_only():
    data = np.zeros((2, 1, 3), dtype=np.float32)
    data.setflags(write=False)
    got = read_series(data)
    got.tensor()[:] = 1.0
    assert not data.any()


def test_a_series_without_observations_is_one_unobserved_token_if_allowed():
    data = np.array([[1.0, 2.0, 3.0], [NAN, NAN, NAN]])
    with pytest.raises(LearnError, match="series 1 has no observed value"):
        read_series(data)
    for times in (None, [0.0, 1.0, 2.0], [[0.0, 1.0, 2.0], [NAN, NAN, NAN]]):
        got = read_series(data, times=times, allow_empty=True)
        assert got.lengths.tolist() == [3, 1]
        assert not got.observed[1].any()
        assert times is None or not got.times[1].any()
    assert read_series(data[1:], allow_empty=True).length == 1


def test_times_have_many_forms():
    data = np.arange(6.0).reshape(2, 3)
    shared = [3, 5, 9]
    days = np.array(["2026-01-03", "2026-01-05", "2026-01-09"], dtype="datetime64[D]")
    for times in (shared, np.array(shared), [shared, shared], np.array([shared, shared]), torch.tensor(shared)):
        got = read_series(data, times=times)
        assert got.times.tolist() == [[0, 2, 6]] * 2
        assert got.time_delta.tolist() == [[3, 2, 4]] * 2
    for times in (days, [days, days], days.astype(object).astype("datetime64[s]"), days - days[0]):
        assert read_series(data, times=times).times.tolist() == [[0, 2 * 86400, 6 * 86400]] * 2


def test_dates_keep_nanoseconds_and_their_zone():
    import pandas as pd

    start = np.datetime64("2026-01-01T00:00:00.000000000")
    fine = start + np.arange(3).astype("timedelta64[ns]")
    assert read_series([[1.0, 2.0, 3.0]], times=[fine]).times[0].tolist() == pytest.approx([0, 1e-9, 2e-9], rel=1e-12)
    large = np.array([2**61, 2**61 + 1, 2**61 + 2])
    assert read_series([[1.0, 2.0, 3.0]], times=large).times[0].tolist() == [0, 1, 2]
    # One hour apart, though the clock on the wall shows two.
    paris = pd.to_datetime(["2026-03-29 00:30", "2026-03-29 01:30"], utc=True).tz_convert("Europe/Paris")
    for times in (paris, pd.Series(paris), [paris], list(paris), [t.to_pydatetime() for t in paris]):
        assert read_series([[1.0, 2.0]], times=times).times[0].tolist() == [0, 3600]


def test_times_behind_the_end_of_a_series_are_not_read():
    data = [[1.0, 2.0, NAN], [1.0, 2.0, 3.0]]
    got = read_series(data, times=[[0.0, 1.0, NAN], [0.0, 4.0, 5.0]])
    assert got.times.tolist() == [[0, 1, 1], [0, 4, 5]]
    assert read_series(data, times=[[0.0, 1.0, -9.0], [0.0, 4.0, 5.0]]).times[0].tolist() == [0, 1, 1]


def test_a_single_shared_instant_is_one_token():
    got = read_series([[1.0, 3.0]], times=[7.0, 7.0])
    assert got.values.ravel().tolist() == [2.0]
    assert (got.times.tolist(), got.time_delta.tolist()) == ([[0.0]], [[1.0]])


@settings(max_examples=10)  # a model per example
@given(timed())
def test_models_of_the_core_take_what_is_read(data):
    got = read_series(data[0], times=data[1])
    side_inputs = got.side_inputs()
    assert set(side_inputs) == {name for name in ("time_delta", "observed", "valid") if getattr(got, name) is not None}
    assert side_inputs["time_delta"].dtype == torch.float64
    model = build_model(channels=got.channels, dtype=torch.float32)
    with torch.no_grad():
        assert torch.isfinite(model(got.tensor(), **side_inputs)).all()


def test_complete_series_have_no_masks():
    got = read_series(np.zeros((2, 3, 4)))
    assert got.side_inputs() == {}
    assert (got.count, got.channels, got.length, got.lengths.tolist()) == (2, 3, 4, [4, 4])
    assert got.tensor().shape == (2, 4, 3)


def test_take_reads_indices_and_masks():
    got = read_series([[1.0, 2.0], [3.0]], times=[[0.0, 1.0], [0.0]])
    assert_same(got.take([1, 0]).take(np.array([False, True])), got.take(0))
    assert got.take([]).count == 0


def test_series_can_be_pickled():
    got = read_series([[1.0, NAN, 2.0], [3.0]])
    assert_same(pickle.loads(pickle.dumps(got)), got)


@pytest.mark.slow
def test_reading_takes_no_python_step_per_value():
    values = np.random.default_rng(0).normal(size=(2_000, 1, 500))
    values[::7, 0, 400:] = NAN
    values[3, 0, 5] = NAN
    times = np.cumsum(np.ones(500)) // 1.5  # one token in three shares its instant
    numbers = values.ravel().tolist()

    def step_through():
        return [math.isnan(number) + math.isinf(number) for number in numbers]

    assert interleaved_ratio(step_through, lambda: read_series(values)) > 2.0
    # Merging instants costs some passes more over the same arrays.
    assert interleaved_ratio(lambda: read_series(values, times=times), lambda: read_series(values)) < 20.0


@pytest.mark.parametrize("step", [0.01, 1 / 30, 1 / 128])
def test_an_even_clock_far_from_0_is_read_as_a_grid(step):
    starts = 1.7e9 + np.array([0.0, 51.003])
    times = read_series(np.zeros((2, 30)), times=starts[:, None] + np.arange(30) * step).times
    np.testing.assert_allclose(times, np.tile(np.arange(30) * step, (2, 1)), rtol=1e-12)
    assert counts_tokens(times / step, None).all()


def test_an_uneven_clock_far_from_0_stays_as_it_is():
    times = 1.7e9 + np.arange(30) * 0.01 + np.where(np.arange(30) % 2, 1e-5, 0.0)
    np.testing.assert_array_equal(read_series(np.zeros((1, 30)), times=times).times[0], times - times[0])
