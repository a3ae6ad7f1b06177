"""Arithmetic on lanes: the sigmoid of SiLU, and buffers that begin a cache line."""

import numpy as np

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.lanes import (
    LANES,
    ROUNDING,
    load,
    maximum,
    minimum,
    multiply_add,
    scale_by_power,
    splat,
    store,
    zero_below,
)

CACHE_LINE = 64  # bytes; lanes that straddle two lines cost two accesses


@array_kernel
def allocate(count):
    """A float32 array (count,) of zeros that begins a cache line."""
    buffer = np.zeros(count + CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[start : start + count]


@kernel
def sigmoid(x):
    """The sigmoid 1 / (1 + exp(-x)) of lanes, within 3e-7.

    exp(-x) = 2**n 2**r with |r| <= 1/2 and a polynomial for the latter. Below -60 the result is zero, so that x times
    it does not grow again for huge x.
    """
    given = x
    x = minimum(maximum(x, splat(-60.0)), splat(60.0))
    rounded = multiply_add(x, splat(-1.4426950408889634), splat(ROUNDING))
    r = multiply_add(x, splat(-1.4426950408889634), ROUNDING - rounded)
    p = r * 0.0013276452664285898 + 0.009675540961325169
    p = p * r + 0.05550713464617729
    p = p * r + 0.24022120237350464
    p = p * r + 0.6931469440460205
    p = p * r + 1.0000001192092896
    return zero_below(given, 1.0 / (scale_by_power(p, rounded) + 1.0))


@kernel
def clear(buffer, start, stop):
    """Set buffer[start:stop] to zero, in whole lanes."""
    for j in range(start, stop, LANES):
        store(buffer, j, splat(0.0))


@kernel
def copy(source, start, target, at, count):
    """Set target[at : at + count] to source[start : start + count], in whole lanes."""
    for j in range(0, count, LANES):
        store(target, at + j, load(source, start + j))
