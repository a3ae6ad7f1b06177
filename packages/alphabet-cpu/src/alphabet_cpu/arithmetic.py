"""What the kernels compute with: SiLU on lanes, and the product of a few rows with a small matrix."""

from typing import Any

from numba import njit

from alphabet_cpu.lanes import (
    LANES,
    broadcast,
    guess_reciprocal,
    load,
    maximum,
    minimum,
    power_of_two,
    round_lanes,
    splat,
    store,
)

ROWS = 8

# No fast-math: every kernel adds in the order in which it is written, so results repeat bit by bit.
kernel: Any = njit(nogil=True, cache=True, error_model="numpy")


@kernel
def sigmoid(x):
    """1 / (1 + exp(-x)), within 3e-7.

    exp(-x) = 2**n 2**r with |r| <= 1/2 and a polynomial for the latter. A division would cost as much as all the rest;
    three Newton steps from the bits of the denominator do not. Beyond |x| = 60 nothing changes that float32 could show.
    """
    x = minimum(maximum(x, splat(-60.0)), splat(60.0))
    n = round_lanes(x * -1.4426950408889634)
    r = x * -1.4426950408889634 - n
    # In pairs rather than by Horner's rule: how long the chain of dependent operations is decides the speed.
    square = r * r
    low = r * 0.6931469440460205 + 1.0000001192092896
    high = r * 0.0013276452664285898 + 0.009675540961325169
    p = (high * square + (r * 0.05550713464617729 + 0.24022120237350464)) * square + low
    d = p * power_of_two(n) + 1.0
    y = guess_reciprocal(d)
    y = y * (2.0 - d * y)
    y = y * (2.0 - d * y)
    return y * (2.0 - d * y)


@kernel
def multiply_rows(x, x_start, inner, matrix, columns, out, out_start, rows):
    """out[t] = x[t] @ matrix (inner, columns), eight rows at a time with their sums in registers.

    `rows` is rounded up to a multiple of eight, for which both arrays must have room; `columns` is one of 16.
    """
    for t in range(0, rows, ROWS):
        x0 = x_start + t * inner
        x1, x2, x3, x4 = x0 + inner, x0 + 2 * inner, x0 + 3 * inner, x0 + 4 * inner
        x5, x6, x7 = x0 + 5 * inner, x0 + 6 * inner, x0 + 7 * inner
        for v in range(0, columns, LANES):
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = splat(0.0)
            for k in range(inner):
                m = load(matrix, k * columns + v)
                a0 = a0 + broadcast(x, x0 + k) * m
                a1 = a1 + broadcast(x, x1 + k) * m
                a2 = a2 + broadcast(x, x2 + k) * m
                a3 = a3 + broadcast(x, x3 + k) * m
                a4 = a4 + broadcast(x, x4 + k) * m
                a5 = a5 + broadcast(x, x5 + k) * m
                a6 = a6 + broadcast(x, x6 + k) * m
                a7 = a7 + broadcast(x, x7 + k) * m
            o = out_start + t * columns + v
            store(out, o, a0)
            store(out, o + columns, a1)
            store(out, o + 2 * columns, a2)
            store(out, o + 3 * columns, a3)
            store(out, o + 4 * columns, a4)
            store(out, o + 5 * columns, a5)
            store(out, o + 6 * columns, a6)
            store(out, o + 7 * columns, a7)


@kernel
def clear(buffer, start, stop):
    """buffer[start:stop] = 0, in whole lanes."""
    for j in range(start, stop, LANES):
        store(buffer, j, splat(0.0))


@kernel
def move_rows(buffer, source, count, width):
    """Rows 0 ... count - 1 become those from row `source` on."""
    for j in range(0, count * width, LANES):
        store(buffer, j, load(buffer, source * width + j))
