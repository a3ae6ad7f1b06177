"""pandas frames in long format, one row per series and instant, as the lists that estimators take."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.errors import LearnError


class FrameSeries(NamedTuple):
    """What a long frame holds, series by series, in the order in which the series first appear."""

    X: list[NDArray[np.float64]]
    """(channels, time_i) each, NaN where missing."""
    times: list[NDArray[Any]] | None
    """(time_i,) each, non-decreasing: numbers, or datetime64 in UTC, or timedelta64; None without a time column."""
    y: NDArray[Any] | None
    """(n,) labels; None without a label column."""
    ids: NDArray[Any]
    """(n,) the entries of the id column."""


def read_frame(
    frame: Any,
    *,
    id: Hashable,  # noqa: A002 - the word that users have for it
    time: Hashable | None = None,
    columns: Iterable[Hashable] | None = None,
    label: Hashable | None = None,
) -> FrameSeries:
    """The series of a pandas frame in long format.

    X, times, y, ids = read_frame(frame, id="patient", time="at", label="outcome")

    id: the column that says which series a row belongs to. Its rows need not be adjacent.
    time: the column of instants, numbers, dates (with or without a time zone) or durations; rows are sorted by it
    within each series, stably. Rows that share an instant stay apart here; estimators merge them. None: rows in order.
    columns: the channels, in this order. None: every other column, all of which must then hold numbers.
    label: the column of the target, which must be constant within a series.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise LearnError(f"read_frame takes a pandas DataFrame, but got {type(frame).__name__}: wrap it in one.")
    if id is None:
        raise LearnError("id is None: pass the name of the column that says which series a row belongs to.")
    roles = [name for name in (id, time, label) if name is not None]
    if columns is None:
        channels = [name for name in frame.columns if name not in roles]
    else:
        single = isinstance(columns, str) or not isinstance(columns, Iterable)
        channels = [columns] if single else list(columns)
    _check_columns(frame, [*roles, *channels])
    if not len(frame) or not len(channels):
        raise LearnError(f"the frame has {len(frame)} rows and {len(channels)} channels: give it at least one of each.")

    codes, ids = _factorize(frame[id], id)  # codes count the ids in order of first appearance; -1 is a missing one
    if (codes < 0).any():
        raise LearnError(f"column {id!r} is missing in row {int(np.argmax(codes < 0))}: every row needs its id.")
    instants = None if time is None else _instants(frame[time], time, frame[id])
    order = np.lexsort((codes,) if instants is None else (instants, codes))
    ends = np.cumsum(np.bincount(codes))[:-1]
    values = np.stack([_numbers(frame[name], name) for name in channels])[:, order]  # (C, rows)
    return FrameSeries(
        X=np.split(values, ends, axis=1),
        times=None if instants is None else np.split(instants[order], ends),
        y=None if label is None else _labels(frame[label], label, codes, ids),
        ids=np.asarray(ids),
    )


def _check_columns(frame: Any, wanted: Sequence[Hashable]) -> None:
    for name in wanted:
        if not isinstance(name, Hashable):
            raise LearnError(f"a column is named by {name!r}, a {type(name).__name__}: pass the name of one column.")
        found = sum(column == name for column in frame.columns.tolist())
        if found == 1:
            continue
        if found > 1:
            raise LearnError(f"the frame has {found} columns named {name!r}: rename all but one.")
        remedy = (
            "it is in the index, call frame.reset_index() first" if name in frame.index.names else "name one of them"
        )
        raise LearnError(f"the frame has no column {name!r}, only {', '.join(map(repr, frame.columns))}: {remedy}.")
    repeated = next((name for name in wanted if list(wanted).count(name) > 1), None)
    if repeated is not None:
        raise LearnError(
            f"column {repeated!r} is asked for twice: it can be only one of id, time, label and a channel."
        )


def _factorize(column: Any, name: Hashable) -> tuple[NDArray[np.intp], Any]:
    """Codes (rows,) and what they stand for, in order of first appearance; -1 where an entry is missing."""
    import pandas as pd

    try:
        codes, entries = pd.factorize(column)
    except TypeError as error:
        raise LearnError(f"column {name!r} holds what cannot be compared ({error}): convert it to text.") from error
    return codes, entries


def _shown(value: Any) -> str:
    """As users wrote it: 2, not np.int64(2)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _numbers(column: Any, name: Hashable) -> NDArray[np.float64]:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_complex_dtype(column.dtype):
        raise LearnError(
            f"column {name!r} holds {column.dtype}, not numbers: convert it, or name the channels by columns=."
        )
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _instants(column: Any, name: Hashable, ids: Any) -> NDArray[Any]:
    """The time column as numpy sorts and subtracts it."""
    import pandas as pd

    missing = column.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raise LearnError(
            f"column {name!r} is missing in row {row}, of series {_shown(ids.iloc[row])}: leave out rows without a "
            "time."
        )
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    array = np.asarray(column.to_numpy())
    if pd.api.types.is_bool_dtype(column.dtype) or not (
        pd.api.types.is_numeric_dtype(column.dtype) or array.dtype.kind in "mM"
    ):
        raise LearnError(f"column {name!r} holds {column.dtype}, not times: convert it with pandas.to_datetime.")
    return array.astype(np.float64) if array.dtype.kind == "O" else array


def _labels(column: Any, name: Hashable, codes: NDArray[np.intp], ids: Any) -> NDArray[Any]:
    """(n,): the label of each series."""
    kinds, _ = _factorize(column, name)
    first = np.unique(codes, return_index=True)[1]  # where each series first appears
    wrong = kinds != kinds[first][codes]
    if wrong.any():
        row = int(np.argmax(wrong))
        there, here = column.iloc[first[codes[row]]], column.iloc[row]
        raise LearnError(
            f"column {name!r} changes within series {_shown(ids[codes[row]])}, from {_shown(there)} to {_shown(here)} "
            f"in row {row}: give each series one label, or split it into several ids."
        )
    if (kinds < 0).any():
        series = ids[codes[int(np.argmax(kinds < 0))]]
        raise LearnError(f"column {name!r} is missing in series {_shown(series)}: leave out series without a label.")
    return np.asarray(column)[first]
