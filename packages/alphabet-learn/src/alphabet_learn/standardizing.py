"""Scaler: channels brought to mean 0 and deviation 1 over what was observed in training."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from alphabet_learn.series import Series

Doubles = NDArray[np.float64]
BLOCK = 1024  # series whose float64 copies are held at once
CONSTANT = 1e-9  # of a channel's mean: rounding alone leaves a constant channel a deviation of about 1e-16 of it

CONSTANT_TARGET = 1e-12  # of a target's mean: the same for targets
LARGEST_SCALED = 1e18  # in deviations: its square is finite in float32


@dataclass(frozen=True, eq=False)
class Scaler:
    """`scaler(series)` gives the series standardized, with 0, the mean, wherever nothing was observed.

    mean, deviation (C,) float64; the deviation is 1 for a channel that never varied or was never observed.
    """

    mean: Doubles
    deviation: Doubles

    def __call__(self, series: Series) -> Series:
        """The same series with standardized values (N, T, C), float32, all finite; masks and times are shared."""
        values = np.empty(series.values.shape, np.float32)
        for start in range(0, series.count, BLOCK):
            block = slice(start, start + BLOCK)
            scaled = np.clip((series.values[block] - self.mean) / self.deviation, -LARGEST_SCALED, LARGEST_SCALED)
            values[block] = scaled if _everything_present(series) else np.where(_present(series, block), scaled, 0.0)
        return replace(series, values=values)


def fit_scaler(series: Series) -> Scaler:
    """The scaler of each channel's observed entries; every entry counts alike, whatever a series weighs."""
    mean, deviation, constant = measure_channels(series)
    return Scaler(np.where(np.isnan(mean), 0.0, mean), np.where(constant, 1.0, deviation))


def measure_channels(series: Series) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
    """Each channel's mean (C,), NaN if it was never observed; its deviation; and whether it counts as constant."""
    count, mean = _average(series, np.zeros(series.channels), power=1)
    deviation = np.sqrt(_average(series, mean, power=2)[1])
    constant = (deviation <= CONSTANT * np.maximum(np.abs(mean), 1e-30)) | (count == 0)
    return np.where(count == 0, np.nan, mean), deviation, constant


def measure_targets(targets: Doubles, weights: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """The weighted mean and deviation of each column of targets (N, K), and its largest magnitude, 1 if that is 0.

    All (K,) and finite for any finite targets; the deviation is 0 where it is that of rounding.
    """
    largest = np.abs(targets).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    share, scaled = weights / weights.sum(), targets / largest
    mean = share @ scaled
    deviation = np.sqrt(share @ (scaled - mean) ** 2)
    return mean * largest, np.where(deviation > CONSTANT_TARGET * np.abs(mean), deviation, 0.0) * largest, largest


def _average(series: Series, center: Doubles, *, power: int) -> tuple[Doubles, Doubles]:
    """How many entries each channel has (C,), and the mean of (entry - center) ** power over them; 0 without any."""
    count, total = np.zeros(series.channels), np.zeros(series.channels)
    for start in range(0, series.count, BLOCK):
        block = slice(start, start + BLOCK)
        present = _present(series, block)
        departure = series.values[block].astype(np.float64) - center
        total += np.where(present, departure**power, 0.0).sum(axis=(0, 1))
        count += np.broadcast_to(present, departure.shape).sum(axis=(0, 1))
    return count, total / np.maximum(count, 1.0)


def _everything_present(series: Series) -> bool:
    return series.observed is None and series.valid is None


def _present(series: Series, block: slice) -> NDArray[np.bool_]:
    """Which entries of a block were observed, in a shape that broadcasts to (n, T, C)."""
    present = np.ones((1, 1, 1), np.bool_)
    if series.valid is not None:
        present = series.valid[block, :, None]
    return present if series.observed is None else present & series.observed[block]
