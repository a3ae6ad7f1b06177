"""Values to features and the lift, forward and backward (Algorithm 1, lines 4 to 6, 11 and 12)."""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import LIFT_OFFSETS, LIFT_REACH, NORM_EPSILON

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.arithmetic import clear, sigmoid
from alphabet_cpu.kernels.clock import convolve_at, convolve_at_bwd
from alphabet_cpu.kernels.lanes import LANES, broadcast, load, splat, store, total
from alphabet_cpu.kernels.layout import Tokens, is_masked
from alphabet_cpu.kernels.products import BLOCK_ROWS, Rows, multiply_rows

EPSILON = np.float32(NORM_EPSILON)
LARGE = np.float32(1e36)  # mean squares from here on are summed again, in float64
assert LIFT_OFFSETS == (-8, -4, 0, 4, 8)  # the kernels below write them out


class Lifted(NamedTuple):
    """The output of a lift, of n tokens.

    features (n, width): SiLU of the taps, not yet normed
    gates (n, width): the sigmoids in it, which only the backward pass needs
    scale (n,): the norm, one factor per token
    """

    features: Any
    gates: Any
    scale: Any


@kernel
def clear_masked(buffer, first_row, width, tokens, mask):
    """Set the rows of masked tokens to zero, where the tokens' rows begin at `first_row` of the buffer."""
    for i in range(tokens.count):
        if is_masked(mask, tokens.first + i):
            clear(buffer, (first_row + i) * width, (first_row + i + 1) * width)


@kernel
def project(values, tokens, length, sizes, matrix, valid, out):
    """Write the features of some tokens (line 4) to `out`; zero at invalid tokens and outside of the sequence.

    The tokens may begin before their sequence of this length, or end after it.
    """
    channels, width = sizes.channels, sizes.width
    before = max(0, -tokens.time)
    inside = max(0, min(tokens.count, length - tokens.time) - before)
    whole = inside // BLOCK_ROWS * BLOCK_ROWS  # a group of rows must not read past the last value
    multiply_rows(
        Rows(values, (tokens.first + before) * channels, channels), matrix, Rows(out, before * width, width), whole
    )
    for i in range(before + whole, before + inside):
        for v in range(0, width, LANES):
            features = splat(0.0)
            for c in range(channels):
                features = features + broadcast(values, (tokens.first + i) * channels + c) * load(matrix, c * width + v)
            store(out, i * width + v, features)
    clear(out, 0, before * width)
    clear(out, (before + inside) * width, tokens.count * width)
    if valid.given:
        clear_masked(out, before, width, Tokens(tokens.first + before, 0, inside), valid)


@kernel
def project_bwd(d_projected, values, tokens, sizes, valid, matrix, d_matrix, d_values):
    """Add to the projection's gradient and, unless `d_values` is empty, write the input's, given the features'."""
    channels, width = sizes.channels, sizes.width
    token, rows = tokens.first, tokens.count
    for c in range(channels):
        for v in range(0, width, LANES):
            d = load(d_matrix, c * width + v)
            for t in range(rows):
                if not is_masked(valid, token + t):
                    d = d + load(d_projected, t * width + v) * broadcast(values, (token + t) * channels + c)
            store(d_matrix, c * width + v, d)
    if d_values.size == 0:
        return
    for t in range(rows):
        if is_masked(valid, token + t):
            continue
        for c in range(channels):
            d = splat(0.0)
            for v in range(0, width, LANES):
                d = d + load(d_projected, t * width + v) * load(matrix, c * width + v)
            d_values[(token + t) * channels + c] = total(d)


@kernel
def mean_square(row, start, features):
    """The mean square of row[start : start + features] in float64, where large float32 numbers do not overflow."""
    squares = 0.0
    for j in range(start, start + features):
        squares += np.float64(row[j]) * np.float64(row[j])
    return squares / features


@kernel
def convolve(source, centre, rows, width, taps, out):
    """Write five taps and a bias over rows of the source, the first of which is number `centre`."""
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4, bias = load(taps, 3 * width + v), load(taps, 4 * width + v), load(taps, 5 * width + v)
        for i in range(rows):
            here = (centre + i) * width + v
            x = bias + load(source, here - 8 * width) * tap_0 + load(source, here - 4 * width) * tap_1
            y = load(source, here) * tap_2 + load(source, here + 4 * width) * tap_3
            store(out, i * width + v, x + (y + load(source, here + 8 * width) * tap_4))


@kernel
def lift(lookups, source, centre, tokens, sizes, taps, valid, lifted, keep_gates):
    """Write SiLU of five taps and a bias (lines 5 and 11), and the reciprocal root mean square of each row (6 and 12).

    The first token is row `centre` of the source; `lookups` is None on a regular grid. The gates are written only
    with `keep_gates`.
    """
    rows, width, features = tokens.count, sizes.width, sizes.features
    out, gates, scale = lifted.features, lifted.gates, lifted.scale
    if lookups is None:
        convolve(source, centre, rows, width, taps, out)
    else:
        convolve_at(lookups, source, centre, rows, width, taps, out)
    # Each sigmoid is a long chain of dependent operations, but the processor looks far enough ahead to run several at
    # once; written side by side they would not fit the registers of AVX2.
    for j in range(0, rows * width, LANES):
        x = load(out, j)
        gate = sigmoid(x)
        store(out, j, x * gate)
        if keep_gates:
            store(gates, j, gate)
    norm_rows(out, rows, width, features, scale)
    if valid.given:
        for i in range(rows):
            if is_masked(valid, tokens.first + i):
                clear(out, i * width, (i + 1) * width)
                scale[i] = 0.0


@kernel
def norm_rows(rows, count, width, features, scale):
    """Write the reciprocal root mean square of each row, in loops apart: for roots, several at once."""
    share, large = np.float32(1.0) / np.float32(features), False
    for i in range(count):
        squares = splat(0.0)
        for j in range(i * width, (i + 1) * width, LANES):
            x = load(rows, j)
            squares = squares + x * x
        scale[i] = total(squares)
    for i in range(count):
        large |= scale[i] * share > LARGE
    if large:
        for i in range(count):
            if scale[i] * share > LARGE:
                scale[i] = 1.0 / np.sqrt(mean_square(rows, i * width, features) + EPSILON)
            else:
                scale[i] = np.float32(1.0) / np.sqrt(scale[i] * share + EPSILON)
    else:
        for i in range(count):
            scale[i] = np.float32(1.0) / np.sqrt(scale[i] * share + EPSILON)


@kernel
def activate_bwd(d_normed, d_lifted, norm_only, lifted, rows, sizes, d_pre, first_row):
    """Write the gradients before SiLU to rows of `d_pre`, given those behind it and behind the norm.

    d_normed (n, width): the normed output's gradient times the norm's scale
    d_lifted (n, width): the gradient of the output before the norm; taken for zero if only the normed one is read
    """
    out, gates, scale, width = lifted.features, lifted.gates, lifted.scale, sizes.width
    share = np.float32(1.0) / np.float32(sizes.features)
    for t in range(rows):
        h = t * width
        aligned = splat(0.0)
        for v in range(0, width, LANES):
            aligned = aligned + load(out, h + v) * load(d_normed, h + v)
        shrink = total(aligned) * scale[t] * share
        for v in range(0, width, LANES):
            x, gate = load(out, h + v), load(gates, h + v)
            d = load(d_normed, h + v) - x * scale[t] * shrink
            if not norm_only:
                d = d + load(d_lifted, h + v)
            store(d_pre, (first_row + t) * width + v, d * (gate + x * (1.0 - gate)))


@kernel
def convolve_bwd(d_pre, source, rows, taps, d_taps, d_source):
    """Add to the gradients of a lift's taps, and write that of its source (Rows) from some token on.

    d_pre (8 + n + 8, width): the gradients before SiLU, from eight tokens before that one on
    """
    origin, start, width = source.buffer, source.start, source.columns
    # A tap carries its source to the output eight or four tokens away, or to its own token; both gradients, the tap's
    # and the source's, read the same rows. The bias's is summed over the tokens of the source as well. There are two
    # loops because the five taps and six sums of one would not fit the registers of AVX2.
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4 = load(taps, 3 * width + v), load(taps, 4 * width + v)
        for t in range(rows):
            h = (LIFT_REACH + t) * width + v
            x = load(d_pre, h + 8 * width) * tap_0 + load(d_pre, h + 4 * width) * tap_1
            y = load(d_pre, h) * tap_2 + load(d_pre, h - 4 * width) * tap_3 + load(d_pre, h - 8 * width) * tap_4
            store(d_source, t * width + v, x + y)
        d_0 = d_1 = d_2 = d_3 = d_4 = d_bias = splat(0.0)
        for t in range(rows):
            x, h = load(origin, start + t * width + v), (LIFT_REACH + t) * width + v
            d_0, d_1 = d_0 + load(d_pre, h + 8 * width) * x, d_1 + load(d_pre, h + 4 * width) * x
            own = load(d_pre, h)
            d_2, d_bias = d_2 + own * x, d_bias + own
            d_3, d_4 = d_3 + load(d_pre, h - 4 * width) * x, d_4 + load(d_pre, h - 8 * width) * x
        store(d_taps, v, load(d_taps, v) + d_0)
        store(d_taps, width + v, load(d_taps, width + v) + d_1)
        store(d_taps, 2 * width + v, load(d_taps, 2 * width + v) + d_2)
        store(d_taps, 3 * width + v, load(d_taps, 3 * width + v) + d_3)
        store(d_taps, 4 * width + v, load(d_taps, 4 * width + v) + d_4)
        store(d_taps, 5 * width + v, load(d_taps, 5 * width + v) + d_bias)


@kernel
def lift_bwd(lookups, d_pre, first_row, source, rows, taps, d_taps, d_source):
    """Add to the gradients of a lift's taps and write its source's, whose first token's own is row `first_row`."""
    if lookups is None:
        convolve_bwd(d_pre, source, rows, taps, d_taps, d_source)
    else:
        convolve_at_bwd(lookups, d_pre, first_row, source, rows, taps, d_taps, d_source)
