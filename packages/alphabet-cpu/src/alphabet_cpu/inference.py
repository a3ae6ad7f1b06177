"""The whole model, one pass over a sequence in tiles of 128 tokens.

Rows are tokens, lanes are features or modes. The second lift looks eight tokens ahead, so the cascaded bank follows the
direct one at that distance; a few rows are carried from tile to tile and nothing grows with the length.
"""

import numpy as np
from alphabet_core.fused import LIFT_OFFSETS, LIFT_REACH, NORM_EPSILON

from alphabet_cpu.arithmetic import ROWS, allocate, clear, copy, multiply_rows, sigmoid
from alphabet_cpu.compiling import kernel
from alphabet_cpu.conditioning import condition_sums, read_head
from alphabet_cpu.lanes import LANES, add_doubles, broadcast, load, splat, store, total
from alphabet_cpu.layout import unpack
from alphabet_cpu.memory import claim, publish, wait_until

TILE = 128
REACH = LIFT_REACH  # of the lift's taps on either side
HISTORY = 4  # of the longest lag
EPSILON = np.float32(NORM_EPSILON)
LARGE = np.float32(1e36)  # mean squares from here on are summed again
assert LIFT_OFFSETS == (-8, -4, 0, 4, 8)  # `lift` writes them out


@kernel
def clear_invalid(buffer, first, rows, width, token, valid):
    """Zero in those of some rows, from `first` on, whose tokens are invalid."""
    for i in range(rows):
        if valid[token + i] == 0:
            clear(buffer, (first + i) * width, (first + i + 1) * width)


@kernel
def project(values, row, length, channels, start, stop, valid, masked, matrix, width, out):
    """Features of tokens start ... stop - 1 (Algorithm 1, line 4); zero at invalid tokens and outside the sequence."""
    first, last = max(start, 0), min(stop, length)
    whole = max(0, last - first) // ROWS * ROWS  # groups of eight must not read past the last value
    multiply_rows(values, (row * length + first) * channels, channels, matrix, width, out, (first - start) * width,
                  whole)  # fmt: skip
    for t in range(start, stop):
        o = (t - start) * width
        token = row * length + t
        if t < 0 or t >= length or (masked and valid[token] == 0):
            clear(out, o, o + width)
        elif t >= first + whole:
            for v in range(0, width, LANES):
                features = splat(0.0)
                for c in range(channels):
                    features = features + broadcast(values, token * channels + c) * load(matrix, c * width + v)
                store(out, o + v, features)


@kernel
def mean_square(row, start, features):
    """In float64, where the squares of large float32 features do not overflow."""
    squares = 0.0
    for j in range(start, start + features):
        squares += np.float64(row[j]) * np.float64(row[j])
    return squares / features


@kernel
def lift(source, centre, rows, width, features, taps, out, gates, keep, scale, token, valid, masked):
    """SiLU of five taps and a bias (lines 5 and 11), and the reciprocal root mean square of each row (lines 6 and 12).

    With `keep` the sigmoids go to `gates`, for the way back. Both outputs need room for whole groups of four lanes.
    """
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4, bias = load(taps, 3 * width + v), load(taps, 4 * width + v), load(taps, 5 * width + v)
        for i in range(rows):
            here = (centre + i) * width + v
            x = bias + load(source, here - 8 * width) * tap_0 + load(source, here - 4 * width) * tap_1
            y = load(source, here) * tap_2 + load(source, here + 4 * width) * tap_3
            store(out, i * width + v, x + (y + load(source, here + 8 * width) * tap_4))
    # A sigmoid is one long chain of dependent operations; four side by side keep the processor busy.
    for j in range(0, rows * width, 4 * LANES):
        a, b, c, d = load(out, j), load(out, j + LANES), load(out, j + 2 * LANES), load(out, j + 3 * LANES)
        gate_a, gate_b, gate_c, gate_d = sigmoid(a), sigmoid(b), sigmoid(c), sigmoid(d)
        store(out, j, a * gate_a), store(out, j + LANES, b * gate_b)
        store(out, j + 2 * LANES, c * gate_c), store(out, j + 3 * LANES, d * gate_d)
        if keep:
            store(gates, j, gate_a), store(gates, j + LANES, gate_b)
            store(gates, j + 2 * LANES, gate_c), store(gates, j + 3 * LANES, gate_d)
    share = np.float32(1.0) / np.float32(features)
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
        mean = total(squares) * share
        if mean > LARGE:
            scale[i] = 1.0 / np.sqrt(mean_square(out, o, features) + EPSILON)
        else:
            scale[i] = np.float32(1.0) / np.sqrt(mean + EPSILON)


@kernel
def synthesize(lifted, scale, rows, width, through, stream, stream_row, token, valid, masked):
    """Line 9: the stream holds the synthesized states; add the lifted features and their feedthrough to it."""
    for v in range(0, width, LANES):
        share = load(through, v)
        for i in range(rows):
            o = (stream_row + i) * width + v
            store(stream, o, load(stream, o) + load(lifted, i * width + v) * (share * scale[i] + 1.0))
    if masked:
        clear_invalid(stream, stream_row, rows, width, token, valid)


@kernel
def transport(drive, scale, rows, columns, transition, states, token, gate, masked):
    """Lines 8 and 14: the states of some tokens behind those of the four before, which are rows 0 ... 3 of `states`."""
    for column in range(0, columns, 2 * LANES):
        p_re, p_im = load(transition, column), load(transition, column + LANES)
        before = (HISTORY - 1) * columns + column
        z_re, z_im = load(states, before), load(states, before + LANES)
        for i in range(rows):
            strength = scale[i]
            if masked and gate[token + i] == 0:
                strength = np.float32(0.0)
            e = i * columns + column
            next_re = p_re * z_re + (load(drive, e) * strength - p_im * z_im)
            z_im = p_re * z_im + (load(drive, e + LANES) * strength + p_im * z_re)
            z_re = next_re
            store(states, e + HISTORY * columns, z_re)
            store(states, e + HISTORY * columns + LANES, z_im)


@kernel
def correlate(states, rows, columns, token, time, valid, masked, sums):
    """Lines 10 and 15: add energies and lag products of those states, in float64, to `sums` (7, modes)."""
    modes = columns // 2
    for column in range(0, columns, 2 * LANES):
        energy = re_1 = im_1 = re_2 = im_2 = re_4 = im_4 = splat(0.0)
        for i in range(rows):
            if masked and valid[token + i] == 0:
                continue
            o = (HISTORY + i) * columns + column
            z_re, z_im = load(states, o), load(states, o + LANES)
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
        at = column // 2
        add_doubles(sums, at, energy)
        add_doubles(sums, at + modes, re_1)
        add_doubles(sums, at + 2 * modes, im_1)
        add_doubles(sums, at + 3 * modes, re_2)
        add_doubles(sums, at + 4 * modes, im_2)
        add_doubles(sums, at + 5 * modes, re_4)
        add_doubles(sums, at + 6 * modes, im_4)


@kernel
def run_tiles(
    values, valid, gate, masked, counters, split, rows, length, sizes, packed, head, bias, pairs, sums, descriptor,
    logits, carried,
):  # fmt: skip
    """Moment sums, descriptors and logits of values (B, T, C), whole sequences or, if `split`, tiles as it claims them.

    What a tile leaves to the next goes through `carried` (2, ...): the last four states of either bank and sixteen rows
    of the stream, written and read by turns. Where other threads run the tiles before and behind, all three are handed
    on in the order of the tiles, as counters 1 ... 3 tell; most of the work needs no waiting.
    """
    channels, features, width, columns = sizes
    matrix, taps_1, drive_1, transition_1, synthesis, through, taps_2, drive_2, transition_2 = unpack(packed, sizes)
    projected = allocate((TILE + 3 * REACH) * width)  # from the tile's first token less 8 on
    lifted = allocate((TILE + REACH) * width)
    stream = allocate((TILE + 3 * REACH) * width)  # from the tile's first token less 16 on
    scale = allocate(TILE + REACH)
    drive = allocate((TILE + REACH) * columns)
    states = allocate((HISTORY + TILE + REACH) * columns)
    if not split:
        carried = allocate(carried.size).reshape(carried.shape)
    history, overlap = HISTORY * columns, 2 * REACH * width
    tiles = -(-length // TILE)
    while True:
        piece = claim(counters, 0)
        row, tile = (piece // tiles, piece % tiles) if split else (piece, 0)
        if row >= rows:
            break
        while True:
            before, behind = carried[(tile + 1) % 2], carried[tile % 2]
            start = tile * TILE
            stop = min(start + TILE, length)
            count, token = stop - start, row * length + start
            project(values, row, length, channels, start - REACH, stop + REACH, valid, masked, matrix, width, projected)
            lift(projected, REACH, count, width, features, taps_1, lifted, lifted, False, scale, token, valid, masked)
            multiply_rows(lifted, 0, width, drive_1, columns, drive, 0, count)
            if split:
                wait_until(counters, 1, piece)
            copy(before, 0, states, 0, history)
            if tile == 0:
                clear(states, 0, history)
            transport(drive, scale, count, columns, transition_1, states, token, gate, masked)
            correlate(states, count, columns, token, start, valid, masked, sums[row, 0])
            copy(states, count * columns, behind, 0, history)
            if split:
                publish(counters, 1, piece + 1)

            multiply_rows(states, history, columns, synthesis, width, stream, overlap, count)
            synthesize(lifted, scale, count, width, through, stream, 2 * REACH, token, valid, masked)
            if split:
                wait_until(counters, 2, piece)
            copy(before, 2 * history, stream, 0, overlap)
            if tile == 0:
                clear(stream, 0, overlap)
            copy(stream, count * width, behind, 2 * history, overlap)
            if split:
                publish(counters, 2, piece + 1)

            # The second lift looks eight tokens ahead: this far the cascaded bank can go.
            done, ready = max(0, start - REACH), stop - REACH
            if stop == length:
                ready = length
                clear(stream, (2 * REACH + count) * width, (3 * REACH + count) * width)
            count, token = ready - done, row * length + done
            lift(stream, done - start + 2 * REACH, count, width, features, taps_2, lifted, lifted, False, scale,
                 token, valid, masked)  # fmt: skip
            multiply_rows(lifted, 0, width, drive_2, columns, drive, 0, count)
            if split:
                wait_until(counters, 3, piece)
            copy(before, history, states, 0, history)
            if tile == 0:
                clear(states, 0, history)
            transport(drive, scale, count, columns, transition_2, states, token, valid, masked)
            correlate(states, count, columns, token, done, valid, masked, sums[row, 1])
            copy(states, count * columns, behind, history, history)
            if stop == length:
                condition_sums(sums[row], pairs[row if pairs.shape[0] > 1 else 0], descriptor[row])
                read_head(descriptor[row], head, bias, logits[row])
            if split:
                publish(counters, 3, piece + 1)
            if split or stop == length:
                break
            tile += 1
