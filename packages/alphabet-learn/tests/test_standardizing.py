import hypothesis.strategies as st
import numpy as np
import pytest
from alphabet_learn.series import Series
from alphabet_learn.standardizing import fit_scaler
from hypothesis import given
from hypothesis.extra.numpy import arrays

NUMBERS = st.floats(-1e3, 1e3, width=32)


@st.composite
def masked(draw):
    """Series of unequal length with missing entries."""
    n, t, c = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    lengths = draw(arrays(np.int64, n, elements=st.integers(1, t)))
    valid = np.arange(t) < lengths[:, None]
    observed = draw(arrays(np.bool_, (n, t, c))) & valid[:, :, None]
    values = draw(arrays(np.float32, (n, t, c), elements=NUMBERS))
    return Series(np.where(observed, values, np.float32(0)), observed, valid)


@given(masked())
def test_what_was_observed_has_mean_0_and_deviation_1_in_every_channel_that_varies(series):
    scaled = fit_scaler(series)(series).values.astype(np.float64)
    for channel in range(series.channels):
        before = series.values[:, :, channel][series.observed[:, :, channel]].astype(np.float64)
        after = scaled[:, :, channel][series.observed[:, :, channel]]
        # Entries are rounded to float32 after scaling; a spread near that of rounding says nothing.
        if before.size and before.std() > 1e-3 * (1.0 + np.abs(before).max()):
            assert after.mean() == pytest.approx(0.0, abs=1e-5)
            assert after.std() == pytest.approx(1.0, abs=1e-5)


@given(masked(), NUMBERS)
def test_what_was_not_observed_never_matters_and_becomes_0(series, junk):
    hidden = Series(np.where(series.observed, series.values, np.float32(junk)), series.observed, series.valid)
    scaler, other = fit_scaler(series), fit_scaler(hidden)
    assert np.array_equal(scaler.mean, other.mean)
    assert np.array_equal(scaler.deviation, other.deviation)
    assert np.array_equal(scaler(series).values, other(hidden).values)
    assert not scaler(series).values[~series.observed].any()


def test_padding_is_not_counted():
    ragged = Series(
        np.array([[[1.0], [3.0], [0.0]], [[1.0], [3.0], [5.0]]], np.float32),
        valid=np.array([[1, 1, 0], [1, 1, 1]], bool),
    )
    scaler = fit_scaler(ragged)
    assert scaler.mean[0] == pytest.approx(13 / 5)
    assert scaler(ragged).values[0, 2, 0] == 0.0


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.3e5, 1e-20])
def test_a_constant_channel_becomes_0_and_keeps_its_scale(constant):
    series = Series(np.full((3, 4, 1), constant, np.float32))
    scaler = fit_scaler(series)
    assert scaler.deviation[0] == 1.0
    assert not scaler(series).values.any()


def test_a_channel_that_was_never_observed_changes_nothing():
    values = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    observed = np.ones(values.shape, bool)
    observed[:, :, 1] = False
    scaler = fit_scaler(Series(values, observed))
    assert (scaler.mean[1], scaler.deviation[1]) == (0.0, 1.0)


def test_many_series_are_read_in_blocks_with_the_same_result():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(2500, 2, 1)).astype(np.float32)
    series = Series(values)
    scaler = fit_scaler(series)
    assert scaler.mean == pytest.approx(values.astype(np.float64).mean(axis=(0, 1)))
    assert scaler.deviation == pytest.approx(values.astype(np.float64).std(axis=(0, 1)))
    assert scaler(series).values.std() == pytest.approx(1.0, abs=1e-5)
    assert scaler(series).values.dtype == np.float32


def test_a_scaler_of_training_data_is_applied_to_other_series_as_it_is():
    scaler = fit_scaler(Series(np.array([[[0.0], [2.0]]], np.float32)))
    other = scaler(Series(np.array([[[5.0]]], np.float32), times=np.array([[0.0]])))
    assert other.values.item() == 4.0
    assert other.times is not None


def test_what_is_far_from_the_training_data_stays_finite():
    scaler = fit_scaler(Series(np.array([[[0.0], [1e-30]]], np.float32)))
    scaled = scaler(Series(np.array([[[1e37], [-1e37]]], np.float32))).values
    assert np.isfinite(scaled**2).all()
    assert scaled[0, 0, 0] > 0 > scaled[0, 1, 0]
