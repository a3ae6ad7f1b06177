"""Irregular time: where taps and lags look on a sequence's own clock (`alphabet_core.grid.ClockGrid`).

A query at an offset from a token meets a token, or lies between two, or has no support. Either way it is a weighted sum
of two rows. Offsets may reach over any number of tokens, so an irregular sequence is one tile.
"""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import LIFT_OFFSETS, SNAP

from alphabet_cpu.compiling import array_kernel, kernel
from alphabet_cpu.kernels.arithmetic import clear
from alphabet_cpu.kernels.lanes import LANES, load, splat, store
from alphabet_cpu.kernels.layout import TAPS, Clock, is_masked
from alphabet_cpu.kernels.modes import add_modes, load_modes

HERE = LIFT_OFFSETS.index(0)  # the lookup at offset zero, which the energy reads too


class Lookups(NamedTuple):
    """Where the tokens of a sequence find what they look for, first at the lift's offsets and then at the lags.

    left, right: row numbers, number `lookup * capacity + token` for a token
    near, far: their weights, both zero without support and at invalid tokens
    steps (B T,): the batch's steps
    elapsed (B T,), instants, following, present (capacity,): what `locate` goes by
    """

    left: Any
    right: Any
    near: Any
    far: Any
    capacity: Any
    steps: Any
    elapsed: Any
    instants: Any
    following: Any
    present: Any


@array_kernel
def allocate_lookups(clock, capacity, lags):
    """Buffers for the lookups of sequences of at most `capacity` tokens; None on a regular grid."""
    if clock is None:
        return None
    given, count = Clock(*clock), (TAPS + lags.size) * capacity
    return Lookups(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
        capacity,
        given.steps,
        given.elapsed,
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
    )


@kernel
def locate(lookups, tokens, lags, valid):
    """Write the lookups of a sequence, whose last token is valid; nothing on a regular grid."""
    if lookups is None:
        return
    else:  # noqa: RET505  numba types only the branch that is taken
        read_clock(lookups, tokens, valid)
        for k in range(TAPS):
            locate_offset(lookups, k, LIFT_OFFSETS[k], tokens, valid)
        for k in range(lags.size):
            locate_offset(lookups, TAPS + k, -lags[k], tokens, valid)


@kernel
def read_clock(lookups, tokens, valid):
    """Write each token's instant, the first valid token from it on, and the one that represents its instant or -1."""
    instants, following, present = lookups.instants, lookups.following, lookups.present
    now, begun = 0.0, False  # only differences matter: padding in front costs the clock no digit
    for t in range(tokens.count):
        if begun:
            now += lookups.elapsed[tokens.first + t]
        begun = begun or not is_masked(valid, tokens.first + t)
        instants[t] = now
    last = tokens.count - 1
    for back in range(tokens.count):
        t = last - back
        is_last = back == 0 or not is_masked(valid, tokens.first + t)
        following[t] = t if is_last else following[t + 1]
    near = 0
    for t in range(tokens.count):
        while near < last and instants[near] < instants[t] - SNAP:
            near += 1
        token = following[near]
        present[t] = token if abs(instants[token] - instants[t]) <= SNAP else -1


@kernel
def locate_offset(lookups, lookup, offset, tokens, valid):
    """Write one lookup of all tokens; queries come in order, so that the search goes on where it was."""
    instants, present, last = lookups.instants, lookups.present, tokens.count - 1
    near = after = 0
    for t in range(tokens.count):
        query, at = instants[t] + offset, lookup * lookups.capacity + t
        left = right = t
        first, second = 0.0, 0.0
        while near < last and instants[near] < query - SNAP:
            near += 1
        while after <= last and instants[after] <= query:
            after += 1
        met = lookups.following[near]
        if is_masked(valid, tokens.first + t):
            pass
        elif abs(instants[met] - query) <= SNAP:
            left = right = met
            first = 1.0
        elif 0 < after <= last and present[after - 1] >= 0 and present[after] >= 0:
            left, right = present[after - 1], present[after]
            second = (query - instants[left]) / (instants[right] - instants[left])
            first = 1.0 - second
        lookups.left[at], lookups.right[at] = left, right
        lookups.near[at], lookups.far[at] = first, second


@kernel
def count_supported(lookups, lookup, count):
    """How many of a sequence's tokens find something at one lookup."""
    found = 0
    for at in range(lookup * lookups.capacity, lookup * lookups.capacity + count):
        found += lookups.near[at] != 0.0 or lookups.far[at] != 0.0
    return found


@kernel
def sample(lookups, at, source, start, width):
    """Sixteen numbers of the source's rows of this width, interpolated by one token's lookup."""
    left, right = start + lookups.left[at] * width, start + lookups.right[at] * width
    return load(source, left) * lookups.near[at] + load(source, right) * lookups.far[at]


@kernel
def scatter(lookups, at, gradient, out, start, width):
    """Add the gradient of what `sample` returned to the rows that it came from."""
    left = start + lookups.left[at] * width
    store(out, left, load(out, left) + gradient * lookups.near[at])
    if lookups.far[at] != 0.0:
        right = start + lookups.right[at] * width
        store(out, right, load(out, right) + gradient * lookups.far[at])


@kernel
def sample_modes(lookups, at, source, start, columns, narrow):
    """Real and imaginary parts of a group of modes, interpolated by one token's lookup."""
    near, far = lookups.near[at], lookups.far[at]
    left_re, left_im = load_modes(source, start + lookups.left[at] * columns, narrow)
    right_re, right_im = load_modes(source, start + lookups.right[at] * columns, narrow)
    return left_re * near + right_re * far, left_im * near + right_im * far


@kernel
def scatter_modes(lookups, at, d_re, d_im, out, start, columns, narrow):
    """Add the gradients of what `sample_modes` returned to the rows that it came from."""
    near, far = lookups.near[at], lookups.far[at]
    add_modes(out, start + lookups.left[at] * columns, narrow, d_re * near, d_im * near)
    if far != 0.0:
        add_modes(out, start + lookups.right[at] * columns, narrow, d_re * far, d_im * far)


@kernel
def convolve_at(lookups, source, centre, rows, width, taps, out):
    """Write the taps and bias of a lift over rows of the source, the first of which is number `centre`."""
    capacity = lookups.capacity
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4, bias = load(taps, 3 * width + v), load(taps, 4 * width + v), load(taps, 5 * width + v)
        start = centre * width + v
        for t in range(rows):
            x = bias + sample(lookups, t, source, start, width) * tap_0
            x = x + sample(lookups, capacity + t, source, start, width) * tap_1
            y = sample(lookups, 2 * capacity + t, source, start, width) * tap_2
            y = y + sample(lookups, 3 * capacity + t, source, start, width) * tap_3
            store(out, t * width + v, x + (y + sample(lookups, 4 * capacity + t, source, start, width) * tap_4))


@kernel
def convolve_at_bwd(lookups, d_pre, first_row, source, rows, taps, d_taps, d_source):
    """Add to the gradients of taps and bias, and write the source's, given that of the output from some row on."""
    width, capacity = source.columns, lookups.capacity
    clear(d_source, 0, rows * width)
    for k in range(TAPS):
        for v in range(0, width, LANES):
            tap, d_tap = load(taps, k * width + v), splat(0.0)
            for t in range(rows):
                at, d = k * capacity + t, load(d_pre, (first_row + t) * width + v)
                d_tap = d_tap + d * sample(lookups, at, source.buffer, source.start + v, width)
                scatter(lookups, at, d * tap, d_source, v, width)
            store(d_taps, k * width + v, load(d_taps, k * width + v) + d_tap)
    for v in range(0, width, LANES):
        d_bias = splat(0.0)
        for t in range(rows):
            d_bias = d_bias + load(d_pre, (first_row + t) * width + v)
        store(d_taps, TAPS * width + v, load(d_taps, TAPS * width + v) + d_bias)


@kernel
def sample_rows(lookups, lookup, source, start, rows, columns, out):
    """Write rows (n, columns) of the source, from `start` on, as one lookup of each token interpolates them."""
    for column in range(0, columns, LANES):
        for t in range(rows):
            at = lookup * lookups.capacity + t
            store(out, t * columns + column, sample(lookups, at, source, start + column, columns))
