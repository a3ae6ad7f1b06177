"""What users pass as X, as one array: numpy, torch, pandas or nested lists, of equal or unequal length.

Nothing is judged here but structure: missing and infinite values are the business of `series`.
"""

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphabet_learn.errors import LearnError

Array = NDArray[Any]
Counts = NDArray[np.intp]

RESHAPE = (
    "Reshape your data: x.reshape(1, 1, -1) if it is a single series, x.reshape(-1, 1, 1) if every number is a series "
    "of its own"
)


class WrongTypeError(LearnError, TypeError):
    """A LearnError where scikit-learn's conventions ask for a TypeError: sparse input, values that are no numbers."""


def stack_series(data: object) -> tuple[Array, Counts]:
    """All series as one array (N, T, C) of real numbers, NaN behind the end of a shorter one; and their lengths (N,).

    An array (N, channels, time) or (N, time) keeps its length for all series, even where its end is NaN.
    """
    elements = _elements(data)
    if elements is None:
        return _from_array(_numbers("X", as_array("X", data)))
    elements = list(elements)
    if not elements:
        raise LearnError(
            "Found array with 0 sample(s) (shape=(0,)) while a minimum of 1 is required: X holds no series."
        )
    if all(element is None or isinstance(element, Real) for element in elements):
        raise LearnError(f"X is a list of {len(elements)} numbers, not a list of series. {RESHAPE}.")
    arrays = [_numbers(f"series {i}", as_array(f"series {i}", element)) for i, element in enumerate(elements)]
    return _from_list([_as_channels(i, array) for i, array in enumerate(arrays)])


def as_array(name: str, data: Any) -> Array:
    """Anything that looks like an array, as numpy; masked entries and pandas' NA become NaN."""
    if isinstance(data, torch.Tensor):
        if data.layout != torch.strided:
            raise _sparse(name)
        data = data.detach().cpu()
        return np.asarray(data.float() if data.dtype == torch.bfloat16 else data)
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise _sparse(name)
    if isinstance(data, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    try:
        array = np.asarray(data)
        if array.dtype.kind == "O" and hasattr(data, "iloc"):  # nullable columns of pandas hold objects
            return np.asarray(data.to_numpy(dtype=object, na_value=np.nan))
        return array
    except ValueError as error:
        raise LearnError(
            f"{name} is not rectangular, its channels differ in length: give every channel of a series the same number "
            f"of time steps, with NaN where nothing was measured ({error})."
        ) from error


def _sparse(name: str) -> WrongTypeError:
    return WrongTypeError(f"{name} is sparse, but a series is stored densely: convert sparse data with .toarray().")


def _elements(data: object) -> Iterable[object] | None:
    """The series of a list, a tuple or a one-dimensional array of objects; None for anything else."""
    if isinstance(data, list | tuple):
        return data
    if hasattr(data, "iloc") and getattr(data, "ndim", 0) == 1:  # a pandas Series whose entries may be arrays
        data = np.asarray(data)
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind == "O":
        return list(data)
    return None


def _numbers(name: str, array: Array) -> Array:
    """The array with a dtype of real numbers; objects become float64, None among them NaN."""
    kind = array.dtype.kind
    if kind in "biuf":
        return array
    if kind == "c":
        raise LearnError(f"Complex data not supported: {name} is {array.dtype}; pass real and imaginary channels.")
    if kind in "mM":
        raise LearnError(f"{name} holds dates or durations: pass numbers, and the instants themselves by times=.")
    if kind == "O" and array.ndim > 0 and not any(isinstance(value, str | bytes) for value in array.flat):
        try:
            return array.astype(np.float64)
        except TypeError as error:
            raise WrongTypeError(f"{name} holds something that is no number: {error}.") from error
        except OverflowError as error:
            raise LearnError(f"{name} holds an integer too large for float64: rescale the channel.") from error
        except ValueError as error:
            raise LearnError(f"{name} holds arrays in its cells: pass a list of (channels, time) arrays.") from error
    if array.ndim == 0:
        found = type(array.item()).__name__
        raise LearnError(f"{name} is a {found}: pass an array (n, channels, time) or (n, time), or a list of arrays.")
    raise LearnError(
        f"{name} holds text or records ({array.dtype}): convert it to numbers, with NaN where one is missing."
    )


def _from_array(array: Array) -> tuple[Array, Counts]:
    shape = array.shape
    if array.ndim < 2:
        raise LearnError(f"Expected 2D or 3D array, got {array.ndim}D array of shape {shape} instead. {RESHAPE}.")
    if array.ndim > 3:
        raise LearnError(f"X has {array.ndim} axes, shape {shape}: pass (n, channels, time) or (n, time).")
    if shape[0] == 0:
        raise LearnError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if 0 in shape:
        raise LearnError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required. Every series needs at "
            "least one channel and one time step."
        )
    channels_first = array[:, None, :] if array.ndim == 2 else array
    return channels_first.transpose(0, 2, 1), np.full(shape[0], shape[-1], dtype=np.intp)  # (N, T, C)


def _as_channels(index: int, array: Array) -> Array:
    if array.ndim not in (1, 2):
        raise LearnError(f"series {index} has shape {array.shape}: pass each series as (channels, time) or (time,).")
    if array.size == 0:
        raise LearnError(
            f"series {index} is empty, shape {array.shape}: leave it out, or give it at least one time step."
        )
    return array[None, :] if array.ndim == 1 else array


def _from_list(arrays: list[Array]) -> tuple[Array, Counts]:
    """Series (C, T_i) one below the other, padded with NaN at the end."""
    channels = len(arrays[0])
    other = next((i for i, array in enumerate(arrays) if len(array) != channels), None)
    if other is not None:
        swapped = len({array.shape[1] for array in arrays}) == 1
        remedy = (
            "the axes look swapped, pass [x.T for x in X]"
            if swapped
            else "give every series all channels, with NaN for those that were not measured"
        )
        raise LearnError(f"series 0 has {channels} channels but series {other} has {len(arrays[other])}: {remedy}.")
    lengths = np.array([array.shape[1] for array in arrays], dtype=np.intp)
    if (lengths == lengths[0]).all():
        return np.stack(arrays).transpose(0, 2, 1), lengths
    rows = np.concatenate([array.T for array in arrays])  # (sum of lengths, C)
    longest = int(lengths.max())
    stacked = np.full((len(arrays), longest, channels), np.nan, dtype=np.result_type(rows, np.float32))
    stacked[within(lengths, longest)] = rows
    return stacked, lengths


def within(lengths: Counts, width: int) -> NDArray[np.bool_]:
    """(N, width): True at the first lengths[n] places of row n."""
    return np.arange(width) < lengths[:, None]
