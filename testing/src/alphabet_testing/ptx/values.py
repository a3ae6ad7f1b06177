"""Numbers of every PTX type with their corner cases, and conversions to Python's numbers and back."""

import numpy as np

from alphabet_testing.ptx.snippets import DTYPES, THREADS, decode_bf16, encode_bf16


def make_values(kind, seed):
    """One number per thread: the corner cases of a type among random numbers."""
    rng = np.random.default_rng([seed, *kind.encode()])
    dtype = np.dtype(DTYPES[kind])
    if kind == "pred":
        return rng.integers(0, 2, THREADS).astype(bool)
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        corners = [0, 1, 2, 3, 7, limits.max, limits.min, limits.max - 1, limits.max // 2 + 1]
        corners += [limits.min + 1, -1] if limits.min else []
        values = rng.integers(limits.min, limits.max, THREADS, dtype, endpoint=True)
        values[: THREADS // 4] = rng.integers(0, 40, THREADS // 4)
        if kind == "bf16":
            return values
    else:
        info = np.finfo(dtype)
        corners = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            -info.max,
            info.tiny,
            -info.smallest_subnormal,
        ]
        corners += [0.5, -1.5, 2.5, 100.5, float(info.tiny) / 2, 3.0, 1 + float(info.eps)]
        with np.errstate(over="ignore"):
            values = (rng.standard_normal(THREADS) * np.exp(rng.standard_normal(THREADS) * 3)).astype(dtype)
    places = rng.permutation(THREADS)[: len(corners)]
    values[places] = np.array(corners, object).astype(dtype)
    return values


def to_python(value, kind):
    """An element of that PTX type as a Python number."""
    if kind == "bf16":
        return decode_bf16(value)
    return value.item()


def from_python(value, kind):
    """A Python number as an element of that PTX type; integers wrap around."""
    if kind == "bf16":
        return encode_bf16(value)
    dtype = np.dtype(DTYPES[kind])
    return wrap(value, kind) if dtype.kind in "ui" else dtype.type(value)


def wrap(value, kind):
    """An integer reduced to the bits of that PTX type."""
    dtype = np.dtype(DTYPES[kind])
    value &= (1 << 8 * dtype.itemsize) - 1
    return dtype.type(value - (1 << 8 * dtype.itemsize) if dtype.kind == "i" and value > np.iinfo(dtype).max else value)
