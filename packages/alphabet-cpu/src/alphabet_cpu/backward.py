"""The way back through one sequence: gradients of the folded weights and of the input from gradients of the moments.

Each sequence runs forward once more with everything kept, which stays in a core's cache, and then backward. The adjoint
states a[t] = dz[t] + conj(p) a[t+1], zero past the end, are the gradients of the injections; the rest is the chain
rule, row by row.
"""

import numpy as np

from alphabet_cpu.arithmetic import accumulate_outer, allocate, clear, multiply_rows
from alphabet_cpu.compiling import kernel
from alphabet_cpu.conditioning import MOMENTS, return_sums
from alphabet_cpu.inference import HISTORY, REACH, clear_invalid, lift, project, synthesize, transport
from alphabet_cpu.lanes import LANES, broadcast, load, splat, store, total
from alphabet_cpu.layout import unpack
from alphabet_cpu.memory import claim


@kernel
def return_states(
    states, rows, columns, transition, sum_grads, at, scale, adjoint, alone, d_transition, token, valid, gate, masked
):  # fmt: skip
    """The norm's scale times the adjoint states, over `adjoint`; zero where the gate is shut.

    Unless the bank stands `alone`, `adjoint` holds what else the states' gradients are.
    """
    modes = columns // 2
    for column in range(0, columns, 2 * LANES):
        p_re, p_im = load(transition, column), load(transition, column + LANES)
        g = at + column // 2
        energy = load(sum_grads, g) * 2.0
        a_1, b_1 = load(sum_grads, g + modes), load(sum_grads, g + 2 * modes)
        a_2, b_2 = load(sum_grads, g + 3 * modes), load(sum_grads, g + 4 * modes)
        a_4, b_4 = load(sum_grads, g + 5 * modes), load(sum_grads, g + 6 * modes)
        dp_re, dp_im = load(d_transition, column), load(d_transition, column + LANES)
        next_re = next_im = splat(0.0)
        for back in range(rows):
            t = rows - 1 - back
            here = t * columns + column
            o = here + HISTORY * columns
            # First what does not wait for the token behind.
            d_re = d_im = splat(0.0)
            if not alone:
                d_re, d_im = load(adjoint, here), load(adjoint, here + LANES)
            if not masked or valid[token + t] != 0:
                d_re = d_re + energy * load(states, o)
                d_im = d_im + energy * load(states, o + LANES)
                for lag in (1, 2, 4):
                    a = a_1 if lag == 1 else (a_2 if lag == 2 else a_4)
                    b = b_1 if lag == 1 else (b_2 if lag == 2 else b_4)
                    if not masked or (t >= lag and valid[token + t - lag] != 0):
                        q_re, q_im = load(states, o - lag * columns), load(states, o - lag * columns + LANES)
                        d_re = d_re + a * q_re - b * q_im
                        d_im = d_im + a * q_im + b * q_re
                    if not masked or (t + lag < rows and valid[token + t + lag] != 0):
                        q_re, q_im = load(states, o + lag * columns), load(states, o + lag * columns + LANES)
                        d_re = d_re + a * q_re + b * q_im
                        d_im = d_im + a * q_im - b * q_re
            d_re, d_im = (
                p_re * next_re + (p_im * next_im + d_re), p_re * next_im + (d_im - p_im * next_re),
            )  # fmt: skip
            q_re, q_im = load(states, o - columns), load(states, o - columns + LANES)
            dp_re = dp_re + d_re * q_re + d_im * q_im
            dp_im = dp_im + d_im * q_re - d_re * q_im
            next_re, next_im = d_re, d_im
            strength = scale[t]
            if masked and gate[token + t] == 0:
                strength = np.float32(0.0)
            store(adjoint, here, d_re * strength)
            store(adjoint, here + LANES, d_im * strength)
        store(d_transition, column, dp_re)
        store(d_transition, column + LANES, dp_im)


@kernel
def return_lift(
    d_normed, d_lifted, alone, lifted, gates, scale, rows, width, features, source, source_row, taps, d_taps, d_pre
):  # fmt: skip
    """From the gradients of a lift's output to those of its taps and, over d_lifted, of its source.

    d_normed is the normed output's times the norm's scale; d_lifted the plain output's, zero if the norm stands
    `alone`. d_pre has eight rows more on either side, which are zero.
    """
    share = np.float32(1.0) / np.float32(features)
    for t in range(rows):
        h = t * width
        aligned = splat(0.0)
        for v in range(0, width, LANES):
            aligned = aligned + load(lifted, h + v) * load(d_normed, h + v)
        shrink = total(aligned) * scale[t] * share
        for v in range(0, width, LANES):
            x, gate = load(lifted, h + v), load(gates, h + v)
            d = load(d_normed, h + v) - x * scale[t] * shrink
            if not alone:
                d = d + load(d_lifted, h + v)
            store(d_pre, (REACH + t) * width + v, d * (gate + x * (1.0 - gate)))
    # A tap takes its source to the output eight or four tokens away or to its own; the way back asks the same rows for
    # both gradients.
    for v in range(0, width, LANES):
        tap_0, tap_1, tap_2 = load(taps, v), load(taps, width + v), load(taps, 2 * width + v)
        tap_3, tap_4 = load(taps, 3 * width + v), load(taps, 4 * width + v)
        d_0, d_1, d_2 = load(d_taps, v), load(d_taps, width + v), load(d_taps, 2 * width + v)
        d_3, d_4, d_bias = load(d_taps, 3 * width + v), load(d_taps, 4 * width + v), load(d_taps, 5 * width + v)
        for t in range(rows):
            x, h = load(source, (source_row + t) * width + v), (REACH + t) * width + v
            g_0, g_1, g_2 = load(d_pre, h + 8 * width), load(d_pre, h + 4 * width), load(d_pre, h)
            g_3, g_4 = load(d_pre, h - 4 * width), load(d_pre, h - 8 * width)
            store(d_lifted, t * width + v, (g_0 * tap_0 + g_1 * tap_1) + (g_2 * tap_2 + g_3 * tap_3 + g_4 * tap_4))
            d_0, d_1, d_2, d_3 = d_0 + g_0 * x, d_1 + g_1 * x, d_2 + g_2 * x, d_3 + g_3 * x
            d_4, d_bias = d_4 + g_4 * x, d_bias + g_2
        store(d_taps, v, d_0)
        store(d_taps, width + v, d_1)
        store(d_taps, 2 * width + v, d_2)
        store(d_taps, 3 * width + v, d_3)
        store(d_taps, 4 * width + v, d_4)
        store(d_taps, 5 * width + v, d_bias)


@kernel
def return_through(d_stream, lifted, scale, rows, width, through, d_through, d_normed):
    """From the stream's gradient to that of the feedthrough, and added to the scaled one of the normed features."""
    for v in range(0, width, LANES):
        share, d_share = load(through, v), load(d_through, v)
        for t in range(rows):
            o = t * width + v
            d = load(d_stream, o)
            d_share = d_share + d * (load(lifted, o) * scale[t])
            store(d_normed, o, load(d_normed, o) + d * (share * scale[t]))
        store(d_through, v, d_share)


@kernel
def return_projection(d_projected, values, token, rows, sizes, valid, masked, matrix, d_matrix, d_values):
    """From the features' gradient to the projection's and, unless `d_values` is empty, to the input's."""
    channels, _, width, _ = sizes
    for c in range(channels):
        for v in range(0, width, LANES):
            d = load(d_matrix, c * width + v)
            for t in range(rows):
                if not masked or valid[token + t] != 0:
                    d = d + load(d_projected, t * width + v) * broadcast(values, (token + t) * channels + c)
            store(d_matrix, c * width + v, d)
    if d_values.size == 0:
        return
    for t in range(rows):
        if masked and valid[token + t] == 0:
            continue
        for c in range(channels):
            back = splat(0.0)
            for v in range(0, width, LANES):
                back = back + load(d_projected, t * width + v) * load(matrix, c * width + v)
            d_values[(token + t) * channels + c] = total(back)


@kernel
def transpose(matrix, rows, columns):
    """A flat matrix (rows, columns), turned."""
    turned = allocate(rows * columns)
    for i in range(rows):
        for j in range(columns):
            turned[j * rows + i] = matrix[i * columns + j]
    return turned


@kernel
def backpropagate(
    values, valid, gate, masked, counter, rows, length, sizes, packed, pairs, sums, d_descriptor, grads, d_values
):  # fmt: skip
    """Gradients of the folded weights, laid out like `packed`, and of the values (B, T, C) unless `d_values` is empty.

    The sequences are in as many groups as `grads` has rows, and each group's gradients are added to its own row, so
    that it does not matter which thread claims it.
    """
    channels, features, width, columns = sizes
    matrix, taps_1, drive_1, transition_1, synthesis, through, taps_2, drive_2, transition_2 = unpack(packed, sizes)
    turned_drive_1, turned_drive_2 = transpose(drive_1, width, columns), transpose(drive_2, width, columns)
    turned_synthesis = transpose(synthesis, columns, width)
    modes, groups, room = columns // 2, len(grads), length + REACH
    projected, stream = allocate((room + 2 * REACH) * width), allocate((room + 2 * REACH) * width)
    lifted_1, gates_1, scale_1 = allocate(room * width), allocate(room * width), allocate(room)
    lifted_2, gates_2, scale_2 = allocate(room * width), allocate(room * width), allocate(room)
    direct, cascaded = allocate((room + HISTORY) * columns), allocate((room + HISTORY) * columns)
    drive, d_pre = allocate(room * columns), allocate((room + 2 * REACH) * width)
    d_normed, d_stream = allocate(room * width), allocate(room * width)
    sum_grads = allocate(2 * MOMENTS * modes)
    while True:
        group = claim(counter, 0)
        if group >= groups:
            break
        d_matrix, d_taps_1, d_drive_1, d_transition_1, d_synthesis, d_through, d_taps_2, d_drive_2, d_transition_2 = (
            unpack(grads[group], sizes)
        )
        for row in range(group * rows // groups, (group + 1) * rows // groups):
            token = row * length
            return_sums(sums[row], pairs[row if pairs.shape[0] > 1 else 0], d_descriptor[row],
                        sum_grads.reshape(2, MOMENTS, modes))  # fmt: skip
            # Forward, everything kept.
            project(values, row, length, channels, -REACH, length + REACH, valid, masked, matrix, width, projected)
            lift(projected, REACH, length, width, features, taps_1, lifted_1, gates_1, True, scale_1, token, valid,
                 masked)  # fmt: skip
            multiply_rows(lifted_1, 0, width, drive_1, columns, drive, 0, length)
            transport(drive, scale_1, length, columns, transition_1, direct, token, gate, masked)
            multiply_rows(direct, HISTORY * columns, columns, synthesis, width, stream, REACH * width, length)
            synthesize(lifted_1, scale_1, length, width, through, stream, REACH, token, valid, masked)
            clear(stream, (REACH + length) * width, (2 * REACH + length) * width)
            lift(stream, REACH, length, width, features, taps_2, lifted_2, gates_2, True, scale_2, token, valid,
                 masked)  # fmt: skip
            multiply_rows(lifted_2, 0, width, drive_2, columns, drive, 0, length)
            transport(drive, scale_2, length, columns, transition_2, cascaded, token, valid, masked)
            clear(direct, (HISTORY + length) * columns, (2 * HISTORY + length) * columns)
            clear(cascaded, (HISTORY + length) * columns, (2 * HISTORY + length) * columns)

            # The cascaded bank; `drive` becomes its adjoint states.
            return_states(cascaded, length, columns, transition_2, sum_grads, MOMENTS * modes, scale_2, drive, True,
                          d_transition_2, token, valid, valid, masked)  # fmt: skip
            multiply_rows(drive, 0, columns, turned_drive_2, width, d_normed, 0, length)
            accumulate_outer(lifted_2, 0, width, drive, 0, columns, length, d_drive_2)
            return_lift(d_normed, d_stream, True, lifted_2, gates_2, scale_2, length, width, features, stream, REACH,
                        taps_2, d_taps_2, d_pre)  # fmt: skip
            if masked:
                clear_invalid(d_stream, 0, length, width, token, valid)

            # The synthesis.
            multiply_rows(d_stream, 0, width, turned_synthesis, columns, drive, 0, length)
            accumulate_outer(direct, HISTORY * columns, columns, d_stream, 0, width, length, d_synthesis)

            # The direct bank.
            return_states(direct, length, columns, transition_1, sum_grads, 0, scale_1, drive, False, d_transition_1,
                          token, valid, gate, masked)  # fmt: skip
            multiply_rows(drive, 0, columns, turned_drive_1, width, d_normed, 0, length)
            accumulate_outer(lifted_1, 0, width, drive, 0, columns, length, d_drive_1)
            return_through(d_stream, lifted_1, scale_1, length, width, through, d_through, d_normed)
            return_lift(d_normed, d_stream, False, lifted_1, gates_1, scale_1, length, width, features, projected,
                        REACH, taps_1, d_taps_1, d_pre)  # fmt: skip
            return_projection(d_stream, values, token, length, sizes, valid, masked, matrix, d_matrix, d_values)
