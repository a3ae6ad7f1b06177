"""Series: what every engine reads, and `read_series`, which makes it of whatever users have.

Conventions, in one place:

- X is (n, channels, time) or (n, time), an array or a list of arrays (channels, time_i) or (time_i,).
- NaN (None, pandas' NA, a masked entry) means missing. Missing tokens at the END of a series, in all channels, are
  padding of a shorter series, as the archives write it: they are not valid, and the series ends before them. Missing
  tokens before that are valid tokens of which nothing is observed.
- times are non-decreasing per series, in any unit; dates become seconds. Every clock starts at 0.
- Tokens of a series that share an instant are merged: per channel the mean of the values observed at that instant,
  missing if none is.
- Values are rounded to float32: larger ones than 1e37 are refused, since their sums would not be finite, and when
  fitting a channel whose variation the rounding would destroy, as around a large offset.
- A series without a single observed value is refused, unless `allow_empty`: then it is one token with nothing observed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from alphabet_learn.arrays import Array, Counts, stack_series, within
from alphabet_learn.clock import Doubles, Flags, first_step, merge_instants, read_clock
from alphabet_learn.errors import LearnError
from alphabet_learn.notices import warn_user

LARGEST = 1e37  # of a value: sums and differences of a few are then finite in float32
FEWEST_STEPS = 100  # a channel's range is at least so many times the error of its rounding
ROUNDING = 1e-12  # of a channel's level: what varies less is constant, up to the rounding of float64


@dataclass(frozen=True, eq=False)
class Series:
    """N series of C channels, padded to T tokens.

    values   (N, T, C) float32, 0 wherever missing or padding.
    observed (N, T, C) bool, False wherever missing or padding; None: everything that is valid is observed.
    valid    (N, T) bool, False for padding at the end of a series and nowhere else; None: every token is valid.
    times    (N, T) float64, non-decreasing from 0 in each series, padding repeats the last; None: a unit grid.
    """

    values: NDArray[Any]
    observed: Flags | None = None
    valid: Flags | None = None
    times: Doubles | None = None

    @property
    def count(self) -> int:
        """N, the number of series."""
        return int(self.values.shape[0])

    @property
    def length(self) -> int:
        """T, the length of the longest series, to which the others are padded."""
        return int(self.values.shape[1])

    @property
    def channels(self) -> int:
        """C, the number of channels."""
        return int(self.values.shape[2])

    @property
    def lengths(self) -> Counts:
        """(N,): how many valid tokens each series has."""
        if self.valid is None:
            return np.full(self.count, self.length, dtype=np.intp)
        return np.asarray(self.valid.sum(axis=1), dtype=np.intp)

    @property
    def time_delta(self) -> Doubles | None:
        """(N, T): the time before each token; before the first, the median positive step of its series, 1 if none."""
        if self.times is None:
            return None
        steps = np.diff(self.times, axis=1)
        return np.asarray(np.concatenate([first_step(steps)[:, None], steps], axis=1))

    def take(self, indices: ArrayLike) -> "Series":
        """The series at these indices (or where this mask (N,) is True), in that order, padded as before."""
        places = np.atleast_1d(np.asarray(indices))
        if places.size == 0:
            places = places.astype(np.intp)
        optional = (None if part is None else part[places] for part in (self.observed, self.valid, self.times))
        return Series(self.values[places], *optional)

    def tensor(self) -> torch.Tensor:
        """The values (N, T, C), sharing memory."""
        return torch.from_numpy(self.values)

    def side_inputs(self) -> dict[str, torch.Tensor]:
        """Those of time_delta (float64), observed and valid that are not None, as models of alphabet_core take them."""
        inputs = {"time_delta": self.time_delta, "observed": self.observed, "valid": self.valid}
        return {name: torch.from_numpy(array) for name, array in inputs.items() if array is not None}


def read_series(
    data: object,
    *,
    times: object = None,
    channels: int | None = None,
    deviation: Doubles | None = None,
    allow_empty: bool = False,
    dtype: DTypeLike = np.float32,
) -> Series:
    """X as Series, copied; the module's docstring says how missing values, padding, times and instants are read.

    data: numpy, torch or pandas (n, channels, time) or (n, time) of any real dtype; or a list, tuple or array of
    objects that are (channels, time_i) or (time_i,).
    times: (time,) for all series, (n, time), or a list of (time_i,); numbers in any unit, or datetime64, datetimes and
    timedelta64, which become seconds. None: a unit grid. Behind the end of a padded series they are not read.
    channels: how many the model was fitted on; others are refused. None, when fitting: any number, with a warning if
    the axes look swapped, which is so if there are more than ten channels per time step and at most 64 time steps.
    deviation: (channels,) of the series that the model was fitted on; beside it, rounding to `dtype` is judged.
    allow_empty: whether a series may have no observed value at all.
    """
    stacked, given = stack_series(data)
    _check_channels(stacked.shape[2], stacked.shape[1], channels, a_list=isinstance(data, list | tuple))
    values = _as_finite(stacked, np.dtype(dtype))
    if channels is None or deviation is not None:
        _check_resolution(stacked, values.dtype, np.zeros(stacked.shape[2]) if deviation is None else deviation)
    observed = ~np.isnan(values)
    lengths, empty = given, np.zeros(len(values), dtype=np.bool_)
    if not observed.all():
        values[~observed] = 0.0
        lengths = _lengths(observed)
        empty = lengths == 0
    if empty.any() and not allow_empty:
        raise LearnError(
            f"series {int(np.argmax(empty))} has no observed value, all of it is NaN ({int(empty.sum())} such series "
            f"among {len(values)}): leave it out."
        )
    clock = None if times is None else read_clock(times, given, lengths)
    lengths = np.maximum(lengths, 1)
    if clock is not None:
        values, observed, clock, lengths = merge_instants(values, observed, clock, lengths)
    return _trimmed(values, observed, clock, lengths)


def trim(series: Series) -> Series:
    """The same series without columns that are padding in all of them, and without masks that say nothing."""
    observed = np.ones(series.values.shape, np.bool_) if series.observed is None else series.observed
    return _trimmed(series.values, observed, series.times, series.lengths)


def _trimmed(values: Array, observed: Flags, clock: Doubles | None, lengths: Counts) -> Series:
    """The series without columns that are padding in all of them, and without masks that say nothing."""
    longest = int(lengths.max())
    if longest < values.shape[1]:
        values, observed = values[:, :longest].copy(), observed[:, :longest].copy()
        clock = None if clock is None else clock[:, :longest].copy()
    valid = None if (lengths == longest).all() else within(lengths, longest)
    complete = observed.all() if valid is None else (observed | ~valid[:, :, None]).all()
    return Series(values, None if complete else observed, valid, clock)


def _lengths(observed: Flags) -> Counts:
    """(N,): how many tokens there are up to the last that has an observed channel; 0 if none has."""
    available: Flags = np.any(observed, axis=2)
    after_last = np.argmax(available[:, ::-1], axis=1)
    return np.where(np.any(available, axis=1), available.shape[1] - after_last, 0)


def _as_finite(stacked: Array, dtype: np.dtype[Any]) -> Array:
    """A copy (N, T, C) in this dtype; infinity, or a number larger than `LARGEST`, is an error."""
    with np.errstate(over="ignore"):
        values = stacked.astype(dtype, order="C", copy=True)
    infinite = np.abs(values) > LARGEST
    if not infinite.any():
        return values
    n, t, c = (int(i) for i in np.argwhere(infinite)[0])
    found = stacked[n, t, c]
    reason = "is infinite" if np.isinf(found) else f"is too large for {dtype}"
    remedy = "write NaN if it is missing" if np.isinf(found) else "rescale the channel"
    raise LearnError(
        f"X {reason} ({found}) in series {n}, channel {c}, position {t} ({int(infinite.sum())} such values in all; "
        f"inf is no measurement): {remedy}."
    )


def _check_resolution(stacked: Array, dtype: np.dtype[Any], deviation: Doubles) -> None:
    """Refuse a channel that varies, but by so little beside its level that rounding to this dtype destroys it.

    What it varies by is its range here, or its deviation (C,) elsewhere if that is more: few series of a channel may
    well be nearly constant.
    """
    if stacked.dtype.kind == "f" and stacked.dtype.itemsize <= dtype.itemsize:
        return
    low, high = (reduce.reduce(stacked, axis=(0, 1)).astype(np.float64) for reduce in (np.fmin, np.fmax))
    level = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):  # a channel may have no observed value
        spread = high - low
        varies = spread > ROUNDING * level
        spread = np.fmax(spread, deviation)
        suspect = varies & (spread < FEWEST_STEPS * np.finfo(dtype).eps * level)
    for channel in np.flatnonzero(suspect):
        exact = stacked[:, :, channel].astype(np.float64)
        lost = np.fmax.reduce(np.abs(exact - exact.astype(dtype)), axis=None)
        if lost * FEWEST_STEPS > spread[channel]:
            raise LearnError(
                f"channel {channel} of X varies by only {spread[channel]:.3g} around {low[channel]:.6g}, which {dtype} "
                f"does not resolve: subtract an offset, such as {low[channel]:.6g}, from that channel, here and when "
                "predicting."
            )


def _check_channels(found: int, length: int, expected: int | None, *, a_list: bool) -> None:
    transposed = "[x.T for x in X]" if a_list else "X.transpose(0, 2, 1)"
    if expected is None:
        if found > 10 * length and length <= 64:
            warn_user(
                f"X has {found} channels of only {length} time steps: if the axes are swapped, pass {transposed}, "
                "since X is (n, channels, time).",
            )
    elif found != expected:
        remedy = (
            f"its time axis has {length} entries, so the axes look swapped: pass {transposed}"
            if length == expected and found > 1
            else f"pass (n, {expected}, time), with NaN for channels that were not measured"
        )
        raise LearnError(f"X has {found} channels but the model was fitted on {expected}; {remedy}.")
