"""Arithmetic on lanes: the sigmoid of SiLU, products with small matrices, and buffers that begin a cache line."""

from typing import Any, NamedTuple

import numpy as np

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import (
    LANES,
    ROUNDING,
    broadcast,
    guess_reciprocal,
    load,
    maximum,
    minimum,
    multiply_add,
    scale_by_power,
    splat,
    store,
    zero_below,
)

ROWS_AT_ONCE = 8  # rows of a product whose sums stay in registers
STRIP = 64  # rows of both factors that stay in the first-level cache
CACHE_LINE = 64  # bytes; lanes that straddle two lines cost two accesses


class Rows(NamedTuple):
    """Rows of so many columns, one after the other, that begin at `start` of a flat buffer."""

    buffer: Any
    start: Any
    columns: Any


class Factors(NamedTuple):
    """The left side of a product: number k of row i is values[start + i * row_stride + k * stride]."""

    values: Any
    start: Any
    row_stride: Any
    stride: Any


class Block(NamedTuple):
    """Two blocks of sixteen columns: row i has one at start + i * columns, and another `second` further on."""

    values: Any
    start: Any
    columns: Any
    second: Any


@kernel
def allocate(count):
    """A float32 array (count,) of zeros that begins a cache line."""
    buffer = np.zeros(count + CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % CACHE_LINE // 4
    return buffer[start : start + count]


@kernel
def sigmoid(x):
    """The sigmoid 1 / (1 + exp(-x)) of lanes, within 3e-7.

    exp(-x) = 2**n 2**r with |r| <= 1/2 and a polynomial for the latter. A division would cost as much as all the rest;
    a Newton step and one of third order from the bits of the denominator do not. Below -60 the result is zero, so that
    x times it does not grow again for huge x.
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
    d = scale_by_power(p, rounded) + 1.0
    y = guess_reciprocal(d)
    y = y * (2.0 - d * y)
    error = 1.0 - d * y
    return zero_below(given, (error * error + error) * y + y)


@kernel
def add_outer_products(left, right, steps, out, fresh):
    """Add the products of `steps` numbers of eight rows (Factors) with rows (Block) to eight rows of out (Block).

    All products of the kernels run through here. If `fresh`, what `out` holds is overwritten instead. The sixteen sums
    stay in registers; ten loads feed sixteen multiply-adds.
    """
    x, apart, stride, x0 = left.values, left.row_stride, left.stride, left.start
    matrix, matrix_start, matrix_columns, q = right.values, right.start, right.columns, right.second
    values, columns, p = out.values, out.columns, out.second
    x1, x2, x3 = x0 + apart, x0 + 2 * apart, x0 + 3 * apart
    x4, x5, x6, x7 = x0 + 4 * apart, x0 + 5 * apart, x0 + 6 * apart, x0 + 7 * apart
    o0 = out.start
    o1, o2, o3 = o0 + columns, o0 + 2 * columns, o0 + 3 * columns
    o4, o5, o6, o7 = o0 + 4 * columns, o0 + 5 * columns, o0 + 6 * columns, o0 + 7 * columns
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = splat(0.0)
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = splat(0.0)
    if not fresh:
        a0, a1, a2, a3 = load(values, o0), load(values, o1), load(values, o2), load(values, o3)
        a4, a5, a6, a7 = load(values, o4), load(values, o5), load(values, o6), load(values, o7)
        b0, b1, b2, b3 = load(values, o0 + p), load(values, o1 + p), load(values, o2 + p), load(values, o3 + p)
        b4, b5, b6, b7 = load(values, o4 + p), load(values, o5 + p), load(values, o6 + p), load(values, o7 + p)
    for k in range(steps):
        j, r = k * stride, matrix_start + k * matrix_columns
        m, n = load(matrix, r), load(matrix, r + q)
        f = broadcast(x, x0 + j)
        a0, b0 = a0 + f * m, b0 + f * n
        f = broadcast(x, x1 + j)
        a1, b1 = a1 + f * m, b1 + f * n
        f = broadcast(x, x2 + j)
        a2, b2 = a2 + f * m, b2 + f * n
        f = broadcast(x, x3 + j)
        a3, b3 = a3 + f * m, b3 + f * n
        f = broadcast(x, x4 + j)
        a4, b4 = a4 + f * m, b4 + f * n
        f = broadcast(x, x5 + j)
        a5, b5 = a5 + f * m, b5 + f * n
        f = broadcast(x, x6 + j)
        a6, b6 = a6 + f * m, b6 + f * n
        f = broadcast(x, x7 + j)
        a7, b7 = a7 + f * m, b7 + f * n
    store(values, o0, a0), store(values, o1, a1), store(values, o2, a2), store(values, o3, a3)
    store(values, o4, a4), store(values, o5, a5), store(values, o6, a6), store(values, o7, a7)
    store(values, o0 + p, b0), store(values, o1 + p, b1), store(values, o2 + p, b2), store(values, o3 + p, b3)
    store(values, o4 + p, b4), store(values, o5 + p, b5), store(values, o6 + p, b6), store(values, o7 + p, b7)


@kernel
def multiply_rows(left, matrix, out, count):
    """Set the first `count` of the rows `out` to those of `left` times the flat matrix (left.columns, out.columns).

    `count` is rounded up to a multiple of eight, for which both must have room. `out.columns` is a multiple of sixteen;
    where that is odd the last sixteen are computed twice.
    """
    inner, columns = left.columns, out.columns
    for v in range(0, columns, 2 * LANES):
        second = LANES if v + LANES < columns else 0
        for t in range(0, count, ROWS_AT_ONCE):
            add_outer_products(
                Factors(left.buffer, left.start + t * inner, inner, 1),
                Block(matrix, v, columns, second),
                inner,
                Block(out.buffer, out.start + t * columns + v, columns, second),
                True,
            )


@kernel
def accumulate_outer(left, right, count, out):
    """Add left^T right over the first `count` rows of both to the flat matrix out (left.columns, right.columns).

    `left.columns` is a multiple of eight, `right.columns` one of sixteen.
    """
    inner, columns = left.columns, right.columns
    for t in range(0, count, STRIP):
        steps = min(STRIP, count - t)
        for v in range(0, columns, 2 * LANES):
            second = LANES if v + LANES < columns else 0
            for k in range(0, inner, ROWS_AT_ONCE):
                add_outer_products(
                    Factors(left.buffer, left.start + t * inner + k, 1, inner),
                    Block(right.buffer, right.start + t * columns + v, columns, second),
                    steps,
                    Block(out, k * columns + v, columns, second),
                    False,
                )


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
