"""What the kernels compute with: SiLU's sigmoid on lanes, products with small matrices, and room to work in."""

import numpy as np

from alphabet_cpu.compiling import kernel
from alphabet_cpu.lanes import (
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

ROWS = 8
STRIP = 64
LINE = 64  # bytes of a cache line; lanes that straddle two cost two accesses


@kernel
def allocate(count):
    """Zeros of float32 that begin a cache line."""
    room = np.zeros(count + LINE // 4, np.float32)
    start = -room.ctypes.data % LINE // 4
    return room[start : start + count]


@kernel
def sigmoid(x):
    """1 / (1 + exp(-x)), within 3e-7.

    exp(-x) = 2**n 2**r with |r| <= 1/2 and a polynomial for the latter. A division would cost as much as all the rest;
    a Newton step and one of third order from the bits of the denominator do not. Below -60 it is zero, so that x times
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
    d = scale_by_power(p, rounded) + 1.0
    y = guess_reciprocal(d)
    y = y * (2.0 - d * y)
    error = 1.0 - d * y
    return zero_below(given, (error * error + error) * y + y)


@kernel
def add_outer_products(left, start, apart, step, right, origin, columns, second, steps, out, o, fresh):
    """The heart of every product: eight rows of `out`, sixteen columns from `o` and sixteen from `o + second`.

    Row i of the block gets the sum over k < steps of left[start + i apart + k step] times right[origin + k columns:],
    on top of what it holds unless `fresh`. Sixteen sums stay in registers; ten loads feed sixteen multiply-adds.
    """
    x0, x1, x2, x3 = start, start + apart, start + 2 * apart, start + 3 * apart
    x4, x5, x6, x7 = start + 4 * apart, start + 5 * apart, start + 6 * apart, start + 7 * apart
    o1, o2, o3, o4, o5 = o + columns, o + 2 * columns, o + 3 * columns, o + 4 * columns, o + 5 * columns
    o6, o7, p = o + 6 * columns, o + 7 * columns, second
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = splat(0.0)
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = splat(0.0)
    if not fresh:
        a0, a1, a2, a3 = load(out, o), load(out, o1), load(out, o2), load(out, o3)
        a4, a5, a6, a7 = load(out, o4), load(out, o5), load(out, o6), load(out, o7)
        b0, b1, b2, b3 = load(out, o + p), load(out, o1 + p), load(out, o2 + p), load(out, o3 + p)
        b4, b5, b6, b7 = load(out, o4 + p), load(out, o5 + p), load(out, o6 + p), load(out, o7 + p)
    for k in range(steps):
        j, r = k * step, origin + k * columns
        m, n = load(right, r), load(right, r + second)
        x = broadcast(left, x0 + j)
        a0, b0 = a0 + x * m, b0 + x * n
        x = broadcast(left, x1 + j)
        a1, b1 = a1 + x * m, b1 + x * n
        x = broadcast(left, x2 + j)
        a2, b2 = a2 + x * m, b2 + x * n
        x = broadcast(left, x3 + j)
        a3, b3 = a3 + x * m, b3 + x * n
        x = broadcast(left, x4 + j)
        a4, b4 = a4 + x * m, b4 + x * n
        x = broadcast(left, x5 + j)
        a5, b5 = a5 + x * m, b5 + x * n
        x = broadcast(left, x6 + j)
        a6, b6 = a6 + x * m, b6 + x * n
        x = broadcast(left, x7 + j)
        a7, b7 = a7 + x * m, b7 + x * n
    store(out, o, a0), store(out, o1, a1), store(out, o2, a2), store(out, o3, a3)
    store(out, o4, a4), store(out, o5, a5), store(out, o6, a6), store(out, o7, a7)
    store(out, o + p, b0), store(out, o1 + p, b1), store(out, o2 + p, b2), store(out, o3 + p, b3)
    store(out, o4 + p, b4), store(out, o5 + p, b5), store(out, o6 + p, b6), store(out, o7 + p, b7)


@kernel
def multiply_rows(x, x_start, inner, matrix, columns, out, out_start, rows):
    """out[t] = x[t] @ matrix (inner, columns).

    `rows` is rounded up to a multiple of eight, for which both arrays must have room; `columns` is one of 16, and an
    odd sixteen at the end is computed twice.
    """
    for v in range(0, columns, 2 * LANES):
        second = LANES if v + LANES < columns else 0
        for t in range(0, rows, ROWS):
            add_outer_products(x, x_start + t * inner, inner, 1, matrix, v, columns, second, inner, out,
                               out_start + t * columns + v, True)  # fmt: skip


@kernel
def accumulate_outer(left, left_start, inner, right, right_start, columns, rows, out):
    """Add left^T right over `rows` rows to out (inner, columns); `inner` is a multiple of 8, `columns` one of 16."""
    for t in range(0, rows, STRIP):  # a strip of both sides stays in the first-level cache
        steps = min(STRIP, rows - t)
        for v in range(0, columns, 2 * LANES):
            second = LANES if v + LANES < columns else 0
            for k in range(0, inner, ROWS):
                add_outer_products(left, left_start + t * inner + k, 1, inner, right, right_start + t * columns + v,
                                   columns, second, steps, out, k * columns + v, False)  # fmt: skip


@kernel
def clear(buffer, start, stop):
    """buffer[start:stop] = 0, in whole lanes."""
    for j in range(start, stop, LANES):
        store(buffer, j, splat(0.0))


@kernel
def copy(source, start, target, at, count):
    """target[at : at + count] = source[start : start + count], in whole lanes."""
    for j in range(0, count, LANES):
        store(target, at + j, load(source, start + j))
