"""Paired contrasts: Student's interval of differences, wins and losses, Holm's correction."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student_t
from statsmodels.stats.multitest import multipletests

CONFIDENCE = 0.95
# Means of shares are equal if they differ by rounding alone; the finest real difference here is about 1e-4.
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """A mean of paired differences with its 95 % Student interval and the two-sided p-value that it is zero.

    With a single difference, bounds and p-value are NaN.
    """

    mean: float
    low: float
    high: float
    p_value: float


def paired_interval(differences: Iterable[float]) -> Interval:
    """The interval of some differences, one per data set or seed."""
    values = np.asarray(list(differences), dtype=np.float64)
    count, mean = len(values), float(values.mean())
    if count < 2:
        return Interval(mean, math.nan, math.nan, math.nan)
    error = float(values.std(ddof=1)) / math.sqrt(count)
    if error == 0.0:
        return Interval(mean, mean, mean, 1.0 if mean == 0.0 else 0.0)
    half = float(student_t.ppf(0.5 + CONFIDENCE / 2.0, count - 1)) * error
    return Interval(mean, mean - half, mean + half, 2.0 * float(student_t.sf(abs(mean) / error, count - 1)))


def count_wins(differences: Iterable[float]) -> tuple[int, int, int]:
    """The numbers of positive, zero and negative differences; what rounding alone makes differ is zero."""
    values = np.asarray(list(differences), dtype=np.float64)
    wins, losses = int((values > _ROUNDING).sum()), int((values < -_ROUNDING).sum())
    return wins, len(values) - wins - losses, losses


def adjust_holm(p_values: pd.Series) -> pd.Series:
    """The p-values adjusted for each other by Holm; NaN stays NaN and counts for nothing."""
    known = p_values.dropna()
    adjusted = p_values.astype(float).copy()
    if len(known) > 0:
        adjusted.loc[known.index] = multipletests(known, method="holm")[1]
    return adjusted
