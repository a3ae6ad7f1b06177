"""Views of series: as they are, their changes, and averages of a few tokens, with masks and times."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.recipe import View
from alphabet_learn.series import Series


def look(series: Series, view: View) -> Series | None:
    """The view of every series, on its own grid; None where no series has a token in it.

    A channel's change is observed where both tokens are, an average where any of its tokens is. A series of one token
    has no change: none of its tokens is valid in that view. Times stay in the unit that they have: a token that stands
    for several has the instant of the first of them, so that a regular clock stays regular.
    """
    if view.kind == "values":
        return series
    if view.kind == "changes":
        return _changes(series)
    return _averages(series, view.span)


def _changes(series: Series) -> Series | None:
    if series.length < 2:
        return None
    values = np.diff(series.values, axis=1)
    valid = None if series.valid is None else series.valid[:, 1:]
    observed = None if series.observed is None else series.observed[:, 1:] & series.observed[:, :-1]
    missing = _missing(valid, observed)
    if missing is not None:
        values = np.where(missing, np.float32(0.0), values)
    return Series(values, observed, valid, None if series.times is None else series.times[:, 1:])


def _averages(series: Series, span: int) -> Series:
    """Averages of blocks of `span` tokens, the last of which may be shorter."""
    if series.length == 1:
        return series
    blocks = -(-series.length // span)
    missing = _missing(series.valid, series.observed)
    if missing is None and series.length % span == 0:
        values = series.values.reshape(series.count, blocks, span, series.channels).mean(axis=2)
        return Series(values, None, None, _first(series.times, span))
    present = np.ones((1, series.length, 1), np.bool_) if missing is None else ~missing
    present = np.broadcast_to(present, series.values.shape)
    counts = _sum_blocks(present.astype(np.float32), span)
    values = _sum_blocks(np.where(present, series.values, np.float32(0.0)), span) / np.maximum(counts, 1)
    observed = None if series.observed is None else counts > 0
    valid = None if series.valid is None else series.valid[:, ::span]
    times = _first(series.times, span)
    if times is not None and valid is not None:
        # Padding repeats the last block's instant: that of the last token, which is later, would be a step of its own.
        last = times[np.arange(len(times)), np.maximum(valid.sum(axis=1) - 1, 0)]
        times = np.where(valid, times, last[:, None])
    return replace(series, values=values, observed=observed, valid=valid, times=times)


def _missing(valid: NDArray[np.bool_] | None, observed: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Where nothing is to be read, in a shape that broadcasts to (N, T, C); None if there is no such place."""
    if valid is None:
        return None if observed is None else ~observed
    return ~valid[:, :, None] if observed is None else ~(valid[:, :, None] & observed)


def _sum_blocks(array: NDArray[np.float32], span: int) -> NDArray[np.float32]:
    sums: NDArray[np.float32] = np.add.reduceat(array, np.arange(0, array.shape[1], span), axis=1)
    return sums


def _first(times: NDArray[np.float64] | None, span: int) -> NDArray[np.float64] | None:
    return None if times is None else times[:, ::span]
