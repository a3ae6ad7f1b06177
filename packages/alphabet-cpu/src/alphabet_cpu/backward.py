"""The way back through one sequence: gradients of the folded weights and of the input from gradients of the moments.

Each sequence runs forward once more with everything kept, which stays in a core's cache, and then backward. The adjoint
states a[t] = dz[t] + conj(p) a[t+1], zero past the end, are the gradients of the injections; the rest is the chain
rule, row by row.
"""

import numpy as np

from alphabet_cpu.arithmetic import accumulate_outer, allocate, clear, kernel, multiply_rows
from alphabet_cpu.claims import claim
from alphabet_cpu.conditioning import MOMENTS, return_sums
from alphabet_cpu.inference import HISTORY, REACH, clear_invalid, lift, project, synthesize, transport
from alphabet_cpu.lanes import LANES, broadcast, load, splat, store, total
from alphabet_cpu.layout import unpack


@kernel
def return_states(states, rows, columns, transition, sum_grads, at, adjoint, d_transition, token, valid, gate, masked):
    """Adjoint states over `adjoint`, which holds what else the states' gradients are; zero where the gate is shut."""
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
            d_re = load(adjoint, here) + (p_re * next_re + p_im * next_im)
            d_im = load(adjoint, here + LANES) + (p_re * next_im - p_im * next_re)
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
            q_re, q_im = load(states, o - columns), load(states, o - columns + LANES)
            dp_re = dp_re + d_re * q_re + d_im * q_im
            dp_im = dp_im + d_im * q_re - d_re * q_im
            next_re, next_im = d_re, d_im
            if masked and gate[token + t] == 0:
                d_re = d_im = splat(0.0)
            store(adjoint, here, d_re)
            store(adjoint, here + LANES, d_im)
        store(d_transition, column, dp_re)
        store(d_transition, column + LANES, dp_im)


@kernel
def return_lift(
    d_normed, d_lifted, lifted, gates, scale, rows, width, features, source, source_row, taps, d_taps, d_pre
):
    """From the gradients of a lift's normed and plain output to those of its taps and, over d_lifted, of its source.

    d_pre has eight rows more on either side, which are zero.
    """
    for t in range(rows):
        h = t * width
        r = scale[t]
        aligned = splat(0.0)
        for v in range(0, width, LANES):
            aligned = aligned + load(lifted, h + v) * load(d_normed, h + v)
        shrink = total(aligned) * r * r * r / np.float32(features)
        for v in range(0, width, LANES):
            x, gate = load(lifted, h + v), load(gates, h + v)
            d = load(d_lifted, h + v) + (load(d_normed, h + v) * r - x * shrink)
            store(d_pre, (REACH + t) * width + v, d * (gate + x * (1.0 - gate)))
    for v in range(0, width, LANES):
        d_0, d_1, d_2 = load(d_taps, v), load(d_taps, width + v), load(d_taps, 2 * width + v)
        d_3, d_4, d_bias = load(d_taps, 3 * width + v), load(d_taps, 4 * width + v), load(d_taps, 5 * width + v)
        for t in range(rows):
            d = load(d_pre, (REACH + t) * width + v)
            s = (source_row + t) * width + v
            d_0 = d_0 + d * load(source, s - 8 * width)
            d_1 = d_1 + d * load(source, s - 4 * width)
            d_2 = d_2 + d * load(source, s)
            d_3 = d_3 + d * load(source, s + 4 * width)
            d_4 = d_4 + d * load(source, s + 8 * width)
            d_bias = d_bias + d
        store(d_taps, v, d_0)
        store(d_taps, width + v, d_1)
        store(d_taps, 2 * width + v, d_2)
        store(d_taps, 3 * width + v, d_3)
        store(d_taps, 4 * width + v, d_4)
        store(d_taps, 5 * width + v, d_bias)
    for t in range(rows):
        for v in range(0, width, LANES):
            d = splat(0.0)
            for k in range(5):
                d = d + load(d_pre, (REACH + t - 4 * (k - 2)) * width + v) * load(taps, k * width + v)
            store(d_lifted, t * width + v, d)


@kernel
def scale_rows(rows_in, scale, rows, width, out):
    """out[t] = scale[t] rows_in[t]."""
    for t in range(rows):
        for v in range(0, width, LANES):
            store(out, t * width + v, load(rows_in, t * width + v) * scale[t])


@kernel
def return_through(d_stream, normed, rows, width, through, d_through, d_normed):
    """From the stream's gradient to that of the feedthrough, and added to that of the normed features."""
    for v in range(0, width, LANES):
        share, d_share = load(through, v), load(d_through, v)
        for o in range(v, rows * width, width):
            d = load(d_stream, o)
            d_share = d_share + d * load(normed, o)
            store(d_normed, o, load(d_normed, o) + d * share)
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
    drive, state = allocate(room * columns), allocate(columns)
    d_pre, d_normed = allocate((room + 2 * REACH) * width), allocate(room * width)
    d_stream, normed = allocate(room * width), allocate(room * width)
    unused = np.zeros((MOMENTS, modes))
    sum_grads = allocate(2 * MOMENTS * modes)
    while True:
        group = claim(counter)
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
            project(values, row, length, channels, 0, length, valid, masked, matrix, width, projected, REACH)
            lift(projected, REACH, length, width, features, taps_1, lifted_1, gates_1, True, scale_1, token, valid,
                 masked)  # fmt: skip
            multiply_rows(lifted_1, 0, width, drive_1, columns, drive, 0, length)
            clear(state, 0, columns)
            transport(drive, scale_1, length, columns, transition_1, state, direct, token, 0, valid, gate, masked,
                      unused)  # fmt: skip
            multiply_rows(direct, HISTORY * columns, columns, synthesis, width, stream, REACH * width, length)
            synthesize(lifted_1, scale_1, length, width, through, stream, REACH, token, valid, masked)
            clear(stream, (REACH + length) * width, (2 * REACH + length) * width)
            lift(stream, REACH, length, width, features, taps_2, lifted_2, gates_2, True, scale_2, token, valid,
                 masked)  # fmt: skip
            multiply_rows(lifted_2, 0, width, drive_2, columns, drive, 0, length)
            clear(state, 0, columns)
            transport(drive, scale_2, length, columns, transition_2, state, cascaded, token, 0, valid, valid, masked,
                      unused)  # fmt: skip
            clear(direct, (HISTORY + length) * columns, (2 * HISTORY + length) * columns)
            clear(cascaded, (HISTORY + length) * columns, (2 * HISTORY + length) * columns)

            # The cascaded bank; `drive` becomes its adjoint states.
            clear(drive, 0, length * columns)
            return_states(cascaded, length, columns, transition_2, sum_grads, MOMENTS * modes, drive, d_transition_2,
                          token, valid, valid, masked)  # fmt: skip
            multiply_rows(drive, 0, columns, turned_drive_2, width, d_normed, 0, length)
            scale_rows(lifted_2, scale_2, length, width, normed)
            accumulate_outer(normed, 0, width, drive, 0, columns, length, d_drive_2)
            clear(d_stream, 0, length * width)
            return_lift(d_normed, d_stream, lifted_2, gates_2, scale_2, length, width, features, stream, REACH, taps_2,
                        d_taps_2, d_pre)  # fmt: skip
            if masked:
                clear_invalid(d_stream, 0, length, width, token, valid)

            # The synthesis.
            multiply_rows(d_stream, 0, width, turned_synthesis, columns, drive, 0, length)
            accumulate_outer(direct, HISTORY * columns, columns, d_stream, 0, width, length, d_synthesis)

            # The direct bank.
            return_states(direct, length, columns, transition_1, sum_grads, 0, drive, d_transition_1, token, valid,
                          gate, masked)  # fmt: skip
            multiply_rows(drive, 0, columns, turned_drive_1, width, d_normed, 0, length)
            scale_rows(lifted_1, scale_1, length, width, normed)
            accumulate_outer(normed, 0, width, drive, 0, columns, length, d_drive_1)
            return_through(d_stream, normed, length, width, through, d_through, d_normed)
            return_lift(d_normed, d_stream, lifted_1, gates_1, scale_1, length, width, features, projected, REACH,
                        taps_1, d_taps_1, d_pre)  # fmt: skip
            return_projection(d_stream, values, token, length, sizes, valid, masked, matrix, d_matrix, d_values)
