"""Physical time: what users pass as times=, as seconds or numbers on a clock that starts at 0 in every series."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.arrays import Array, Counts, as_array, within
from alphabet_learn.errors import LearnError

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNIT_TOLERANCE = 1e-6  # as near as that, a token is at its place on a grid: the model snaps to it anyway
SNAPPED = 4.0  # units in the last place of an instant: two roundings, and those of how a user computed it


def read_clock(times: object, given: Counts, lengths: Counts) -> Doubles:
    """Elapsed time (N, T) since each series' first token, non-decreasing; padding repeats the last.

    given (N,) are the lengths that X had, which times must have too; of those only the first lengths[n] are read and
    checked, the rest is padding. Numbers keep their unit; datetime64 and timedelta64 become seconds. Floating point
    numbers that are evenly spaced up to their own rounding, as 1.7e9 + 0.01 t is, become an exact grid (`_snap`).
    """
    instants = _instants(times, given)
    clock = _elapsed(instants)
    read = within(lengths, clock.shape[1])
    bad = read & ~np.isfinite(clock)
    if bad.any():
        n, t = _first(bad)
        raise LearnError(
            f"times of series {n} is {instants[n, t]} at position {t}: every token needs a finite time, so leave out "
            "rows whose time is unknown."
        )
    with np.errstate(invalid="ignore"):  # padding may hold anything
        backward = read[:, 1:] & (np.diff(clock, axis=1) < 0)
    if backward.any():
        n, t = _first(backward)
        raise LearnError(
            f"times of series {n} goes back at position {t + 1}, from {instants[n, t]} to {instants[n, t + 1]}: sort "
            "the values and times of each series by time (read_frame does so)."
        )
    clock = _snap(clock, instants, lengths)
    last = clock[np.arange(len(clock)), np.maximum(lengths - 1, 0)]
    return np.where(read, clock, np.where(lengths > 0, last, 0.0)[:, None])


def merge_instants(
    values: Array, observed: Flags, clock: Doubles, lengths: Counts
) -> tuple[Array, Flags, Doubles, Counts]:
    """Tokens of a series that share an instant as one: per channel the mean of what is observed, missing if nothing is.

    values and observed (N, T, C), clock (N, T), lengths (N,); the result has as many tokens as there are instants.
    """
    valid = within(lengths, clock.shape[1])
    begins = valid.copy()
    begins[:, 1:] &= np.diff(clock, axis=1) > 0
    if (begins == valid).all():
        return values, observed, clock, lengths
    merged_lengths = begins.sum(axis=1)
    merged_valid = within(merged_lengths, int(merged_lengths.max()))
    channels = values.shape[2]
    rows, merged_rows = np.flatnonzero(valid), np.flatnonzero(merged_valid)
    starts = np.flatnonzero(begins.ravel()[rows])  # where each instant begins among the valid rows
    count = np.add.reduceat(observed.reshape(-1, channels)[rows].astype(np.int32), starts, axis=0)
    total = np.add.reduceat(values.reshape(-1, channels)[rows].astype(np.float64), starts, axis=0)  # missing: 0
    merged_values = np.zeros((*merged_valid.shape, channels), dtype=values.dtype)
    merged_values.reshape(-1, channels)[merged_rows] = total / np.maximum(count, 1)
    merged_observed = np.zeros(merged_values.shape, dtype=np.bool_)
    merged_observed.reshape(-1, channels)[merged_rows] = count > 0
    merged_clock = np.repeat(clock[:, -1:], merged_valid.shape[1], axis=1)
    merged_clock[merged_valid] = clock[begins]
    return merged_values, merged_observed, merged_clock, merged_lengths


def median_step(times: Doubles) -> float:
    """The median of all positive steps of clocks (N, T), a model's unit of time; 1 if there is none."""
    steps = np.diff(times, axis=1)
    return float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0


def counts_tokens(times: Doubles, valid: Flags | None) -> Flags:
    """The mask (N,) of clocks (N, T) whose valid tokens are one unit apart, so that counting them is reading it."""
    near = np.abs(times - times[:, :1] - np.arange(times.shape[1])) <= UNIT_TOLERANCE
    return np.asarray((near if valid is None else near | ~valid).all(axis=1))


def first_step(steps: Doubles) -> Doubles:
    """(N,): the median of the positive steps of each row of (N, S), 1.0 where a row has none."""
    positive = steps > 0
    count = positive.sum(axis=1)
    if not count.any():
        return np.ones(len(steps))
    ordered = np.sort(np.where(positive, steps, np.inf), axis=1)
    middle = np.stack([np.maximum(count - 1, 0) // 2, np.minimum(count // 2, steps.shape[1] - 1)], axis=1)
    low, high = np.where(count > 0, np.take_along_axis(ordered, middle, axis=1).T, 1.0)
    return np.asarray(low + (high - low) / 2)


def _instants(times: object, given: Counts) -> Array:
    """Times as one array (N, T) of numbers, instants or durations, padded with the dtype's zero."""
    count, width = len(given), int(given.max())
    if _is_list_of_rows(times):
        rows = [_dated(f"times of series {i}", row) for i, row in enumerate(times)]  # type: ignore[arg-type,var-annotated]
        if len(rows) != count:
            raise LearnError(f"times holds {len(rows)} series but X holds {count}: pass one array of times per series.")
        for i, row in enumerate(rows):
            if row.shape != (given[i],):
                raise LearnError(
                    f"times of series {i} has shape {row.shape} but the series has {given[i]} time steps: pass one "
                    "time per step."
                )
        if len({row.dtype.kind in "mM" for row in rows}) > 1:
            raise LearnError("times mixes numbers with dates: pass the same kind for all series.")
        packed = np.concatenate(rows)
        instants = np.zeros((count, width), dtype=packed.dtype)
        instants[within(given, width)] = packed
        return instants
    array = _dated("times", times)
    if (given != width).any():
        raise LearnError("times is one array but the series of X differ in length: pass a list, one array per series.")
    if array.shape not in ((width,), (count, width)):
        raise LearnError(
            f"times has shape {array.shape}: pass ({width},) if all series share their times, or ({count}, {width})."
        )
    return np.broadcast_to(array, (count, width))


def _is_list_of_rows(times: Any) -> bool:
    if isinstance(times, np.ndarray) and times.dtype.kind != "O":
        return False
    return isinstance(times, list | tuple | np.ndarray) and len(times) > 0 and np.ndim(times[0]) > 0


def _dated(name: str, data: Any) -> Array:
    """Numbers or datetimes as numpy can subtract them; instants with a time zone are read in UTC."""
    zone = getattr(getattr(data, "dtype", None), "tz", None)  # of a pandas Series or index
    array = np.asarray(data, dtype="datetime64[ns]") if zone is not None else as_array(name, data)
    if array.dtype.kind == "O" and array.ndim > 0:
        array = _from_objects(name, array)
    if array.dtype.kind not in "iufmM":
        raise LearnError(
            f"{name} holds {array.dtype}: pass numbers or datetime64, which pandas.to_datetime makes of text."
        )
    # Months and years have no fixed duration, and a coarse unit is exact in microseconds.
    if array.dtype.kind in "mM" and np.datetime_data(array.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return array.astype(f"{array.dtype.kind}8[us]")
    return array


def _from_objects(name: str, array: Array) -> Array:
    dates = any(isinstance(value, datetime) for value in array.flat)
    try:
        plain = [_in_utc(value) for value in array.flat] if dates else list(array.flat)
        return np.array(plain, dtype="datetime64[us]" if dates else np.float64).reshape(array.shape)
    except (AttributeError, TypeError, ValueError) as error:
        raise LearnError(f"{name} cannot be read as numbers or dates: {error}.") from error


def _in_utc(value: Any) -> Any:
    if value is None or value != value:  # pandas' NaT, which is a datetime and unequal to itself
        return None
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value


def _elapsed(instants: Array) -> Doubles:
    """float64 time since the first column; subtracted before rounding, since a date in nanoseconds has 61 bits."""
    if instants.dtype.kind in "mM":
        return np.asarray((instants - instants[:, :1]) / np.timedelta64(1, "s"), dtype=np.float64)
    exact = instants.astype(np.int64 if instants.dtype.kind in "iu" else np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(exact - exact[:, :1], dtype=np.float64)


def _snap(clock: Doubles, instants: Array, lengths: Counts) -> Doubles:
    """Clocks with the rounding of their instants undone, in series that have a grid within `SNAPPED` times that.

    The grid's step is the shortest decimal number, or the inverse of one (a rate), that the rounding allows, so that
    series which start at other instants have the same.
    """
    if instants.dtype.kind != "f":
        return clock
    snapped = clock
    ends = np.maximum(lengths - 1, 0)
    rows = np.arange(len(clock))
    raw = np.maximum(np.abs(instants[:, 0]), np.abs(instants[rows, ends]))  # the largest, since times are sorted
    error = SNAPPED * np.spacing(raw).astype(np.float64)
    step = clock[rows, ends] / np.maximum(ends, 1)
    coarse = (error > 1e-3 * UNIT_TOLERANCE * step) & (error < 0.1 * step)
    tokens = np.arange(clock.shape[1])
    for n in np.flatnonzero(coarse):
        read = tokens <= ends[n]
        grid = tokens * _shortest(float(step[n]), float(error[n] / ends[n]))
        if (np.abs(clock[n] - grid) <= error[n])[read].all():
            snapped = clock.copy() if snapped is clock else snapped
            snapped[n, read] = grid[read]
    return snapped


def _shortest(number: float, error: float) -> float:
    """The positive number of fewest decimal digits, itself or its inverse, within this error of the given one."""
    for digits in range(17):
        for candidate in (float(f"{number:.{digits}e}"), 1.0 / float(f"{1.0 / number:.{digits}e}")):
            if abs(candidate - number) <= error:
                return candidate
    return number


def _first(flags: Flags) -> tuple[int, int]:
    n, t = np.argwhere(flags)[0]
    return int(n), int(t)
