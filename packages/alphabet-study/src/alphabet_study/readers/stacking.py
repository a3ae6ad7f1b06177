"""Series of unequal length, with missing values or at irregular times, stacked into tensors with their masks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from alphabet_core import Examples
from numpy.typing import NDArray
from torch import Tensor

from alphabet_study.readers.places import malformed

# 4 GiB of float32: one long line among many short ones would otherwise multiply into more memory than there is.
MOST_VALUES = 2**30


def stack_series(
    path: Path,
    series: Sequence[NDArray[np.float32]],
    targets: Tensor,
    *,
    times: Sequence[NDArray[np.float64]] | None = None,
    steps: int | None = None,
) -> Examples:
    """N series (T_i, C), in which NaN means missing, as examples of the longest's length or of `steps`.

    Shorter series are padded at their end; padding and missing values are zero. A mask that would be True everywhere
    is None. times (T_i,), counted from where the recording began, give the time deltas: of the first step its own time.
    """
    lengths = np.array([len(one) for one in series])
    longest = int(lengths.max()) if steps is None else steps
    channels = series[0].shape[1]
    if len(series) * longest * channels > MOST_VALUES:
        raise malformed(
            path,
            f"{len(series)} series x {longest} steps x {channels} channels, padded, take over {MOST_VALUES >> 28} GiB",
            "cut or resample the longest series",
        )
    values = np.zeros((len(series), longest, channels), dtype=np.float32)
    for row, one in zip(values, series, strict=True):
        row[: len(one)] = one
    valid = np.arange(longest) < lengths[:, None] if (lengths < longest).any() else None
    missing = np.isnan(values)
    observed = None
    if missing.any():
        values[missing] = 0.0
        observed = ~missing if valid is None else ~missing & valid[:, :, None]
    deltas = None
    if times is not None:
        deltas = np.zeros((len(series), longest), dtype=np.float32)
        for row, instants in zip(deltas, times, strict=True):
            row[: len(instants)] = np.diff(instants, prepend=0.0)
    return Examples(torch.from_numpy(values), targets, _tensor(deltas), _tensor(observed), _tensor(valid))


def _tensor(array: NDArray[np.bool_] | NDArray[np.float32] | None) -> Tensor | None:
    return None if array is None else torch.from_numpy(array)
