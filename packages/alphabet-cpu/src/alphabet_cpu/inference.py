"""The whole model up to its moments, one pass over a sequence in tiles of 64 tokens.

Rows are tokens, lanes are features or modes. The second lift looks eight tokens ahead, so the cascaded bank follows the
direct one at that distance; a few rows are carried from tile to tile and nothing grows with the length.
"""

import numpy as np

from alphabet_cpu.arithmetic import clear, kernel, move_rows, multiply_rows, sigmoid
from alphabet_cpu.lanes import LANES, broadcast, load, splat, store, total

TILE = 64
REACH = 8  # of the lift's taps on either side
HISTORY = 4  # of the longest lag
MOMENTS = 7  # energy, and the real and imaginary parts of three lags
EPSILON = np.float32(1e-6)


@kernel
def project(values, row, length, channels, start, stop, valid, masked, matrix, width, out, out_row):
    """Features of tokens start ... stop - 1 (Algorithm 1, line 4); zero at invalid tokens and past the end."""
    for t in range(start, stop):
        o = (out_row + t - start) * width
        token = row * length + t
        if t >= length or (masked and valid[token] == 0):
            clear(out, o, o + width)
            continue
        for v in range(0, width, LANES):
            features = broadcast(values, token * channels) * load(matrix, v)
            for c in range(1, channels):
                features = features + broadcast(values, token * channels + c) * load(matrix, c * width + v)
            store(out, o + v, features)


@kernel
def lift(source, centre, rows, width, features, taps, out, gates, keep, scale, token, valid, masked):
    """SiLU of five taps and a bias (lines 5 and 11), and the reciprocal root mean square of each row (lines 6 and 12).

    With `keep` the sigmoids go to `gates`, for the way back.
    """
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4, bias = load(taps, 3 * width + v), load(taps, 4 * width + v), load(taps, 5 * width + v)
        for i in range(rows):
            here = (centre + i) * width + v
            x = bias + load(source, here - 8 * width) * tap_0 + load(source, here - 4 * width) * tap_1
            y = load(source, here) * tap_2 + load(source, here + 4 * width) * tap_3
            x = x + (y + load(source, here + 8 * width) * tap_4)
            gate = sigmoid(x)
            if keep:
                store(gates, i * width + v, gate)
            store(out, i * width + v, x * gate)
    for i in range(rows):
        o = i * width
        if masked and valid[token + i] == 0:
            clear(out, o, o + width)
            scale[i] = 0.0
            continue
        squares = splat(0.0)
        for v in range(0, width, LANES):
            x = load(out, o + v)
            squares = squares + x * x
        scale[i] = np.float32(1.0) / np.sqrt(total(squares) / np.float32(features) + EPSILON)


@kernel
def synthesize(lifted, scale, rows, width, through, stream, stream_row, token, valid, masked):
    """Line 9: the stream holds the synthesized states; add the lifted features and their feedthrough to it."""
    for i in range(rows):
        o = (stream_row + i) * width
        if masked and valid[token + i] == 0:
            clear(stream, o, o + width)
            continue
        for v in range(0, width, LANES):
            x = load(lifted, i * width + v)
            store(stream, o + v, load(stream, o + v) + x + x * (load(through, v) * scale[i]))


@kernel
def transport(drive, scale, rows, columns, transition, state, states, token, time, valid, gate, masked, sums, at):
    """Lines 8 and 14 with the moments of lines 10 and 15: advance all modes over some tokens, sixteen modes at a time.

    Rows 0 ... 3 of `states` are those of the four tokens before. The tile's sums are added to `sums[at:]` in float64.
    """
    modes = columns // 2
    partial = np.empty(MOMENTS * LANES, np.float32)
    for column in range(0, columns, 2 * LANES):
        p_re, p_im = load(transition, column), load(transition, column + LANES)
        z_re, z_im = load(state, column), load(state, column + LANES)
        energy = re_1 = im_1 = re_2 = im_2 = re_4 = im_4 = splat(0.0)
        for i in range(rows):
            strength = scale[i]
            if masked and gate[token + i] == 0:
                strength = np.float32(0.0)
            e = i * columns + column
            next_re = p_re * z_re + (load(drive, e) * strength - p_im * z_im)
            z_im = p_re * z_im + (load(drive, e + LANES) * strength + p_im * z_re)
            z_re = next_re
            o = e + HISTORY * columns
            store(states, o, z_re)
            store(states, o + LANES, z_im)
            if masked and valid[token + i] == 0:
                continue
            energy = energy + z_re * z_re + z_im * z_im
            # Without a mask the states in front of the sequence are zero, and so is their product.
            if not masked or (time + i >= 1 and valid[token + i - 1] != 0):
                q_re, q_im = load(states, o - columns), load(states, o - columns + LANES)
                re_1 = re_1 + z_re * q_re + z_im * q_im
                im_1 = im_1 + z_im * q_re - z_re * q_im
            if not masked or (time + i >= 2 and valid[token + i - 2] != 0):
                q_re, q_im = load(states, o - 2 * columns), load(states, o - 2 * columns + LANES)
                re_2 = re_2 + z_re * q_re + z_im * q_im
                im_2 = im_2 + z_im * q_re - z_re * q_im
            if not masked or (time + i >= 4 and valid[token + i - 4] != 0):
                q_re, q_im = load(states, o - 4 * columns), load(states, o - 4 * columns + LANES)
                re_4 = re_4 + z_re * q_re + z_im * q_im
                im_4 = im_4 + z_im * q_re - z_re * q_im
        store(state, column, z_re)
        store(state, column + LANES, z_im)
        store(partial, 0, energy)
        store(partial, LANES, re_1)
        store(partial, 2 * LANES, im_1)
        store(partial, 3 * LANES, re_2)
        store(partial, 4 * LANES, im_2)
        store(partial, 5 * LANES, re_4)
        store(partial, 6 * LANES, im_4)
        for moment in range(MOMENTS):
            for lane in range(LANES):
                sums[at + moment * modes + column // 2 + lane] += np.float64(partial[moment * LANES + lane])


@kernel
def sum_moments(values, valid, gate, masked, first, last, length, channels, features, weights, sums):
    """Moment sums (B, 2, 7, modes) of sequences first ... last - 1 of values (B, T, C), all arrays flat."""
    matrix, taps_1, drive_1, transition_1, synthesis, through, taps_2, drive_2, transition_2 = weights
    width, columns = through.size, transition_1.size
    modes = columns // 2
    projected = np.zeros((TILE + 2 * REACH) * width, np.float32)  # tokens start - 8 ... start + 71
    lifted = np.zeros((TILE + REACH) * width, np.float32)
    stream = np.zeros((TILE + 3 * REACH) * width, np.float32)  # tokens start - 16 ... start + 71
    scale = np.zeros(TILE + REACH, np.float32)
    drive = np.zeros((TILE + REACH) * columns, np.float32)
    direct = np.zeros((HISTORY + TILE) * columns, np.float32)
    cascaded = np.zeros((HISTORY + TILE + REACH) * columns, np.float32)
    direct_state, cascaded_state = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    for row in range(first, last):
        clear(projected, 0, REACH * width)
        clear(stream, 0, 2 * REACH * width)
        clear(direct, 0, HISTORY * columns)
        clear(cascaded, 0, HISTORY * columns)
        clear(direct_state, 0, columns)
        clear(cascaded_state, 0, columns)
        project(values, row, length, channels, 0, REACH, valid, masked, matrix, width, projected, REACH)
        done = 0  # tokens that the cascaded bank has seen
        for start in range(0, length, TILE):
            stop = min(start + TILE, length)
            rows, token = stop - start, row * length + start
            project(values, row, length, channels, start + REACH, stop + REACH, valid, masked, matrix, width,
                    projected, 2 * REACH)  # fmt: skip
            lift(projected, REACH, rows, width, features, taps_1, lifted, lifted, False, scale, token, valid, masked)
            multiply_rows(lifted, 0, width, drive_1, columns, drive, 0, rows)
            transport(drive, scale, rows, columns, transition_1, direct_state, direct, token, start, valid, gate,
                      masked, sums, row * 2 * MOMENTS * modes)  # fmt: skip
            multiply_rows(direct, HISTORY * columns, columns, synthesis, width, stream, 2 * REACH * width, rows)
            synthesize(lifted, scale, rows, width, through, stream, 2 * REACH, token, valid, masked)
            move_rows(direct, rows, HISTORY, columns)

            ready = stop - REACH
            if stop == length:
                ready = length
                clear(stream, (2 * REACH + rows) * width, (3 * REACH + rows) * width)
            rows, token = ready - done, row * length + done
            lift(stream, done - start + 2 * REACH, rows, width, features, taps_2, lifted, lifted, False, scale,
                 token, valid, masked)  # fmt: skip
            multiply_rows(lifted, 0, width, drive_2, columns, drive, 0, rows)
            transport(drive, scale, rows, columns, transition_2, cascaded_state, cascaded, token, done, valid, valid,
                      masked, sums, (row * 2 + 1) * MOMENTS * modes)  # fmt: skip
            move_rows(cascaded, rows, HISTORY, columns)
            done = ready
            move_rows(projected, TILE, 2 * REACH, width)
            move_rows(stream, TILE, 2 * REACH, width)
