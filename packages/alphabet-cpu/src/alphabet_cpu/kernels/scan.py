"""The recurrence of a bank's modes over the tokens, forward and backward (Algorithm 1, lines 8 and 14).

The states of some tokens come after those of the tokens before them, which lag products still ask for.
"""

import numpy as np

from alphabet_cpu.compiling import inlined, kernel
from alphabet_cpu.kernels.lanes import splat
from alphabet_cpu.kernels.layout import is_masked
from alphabet_cpu.kernels.modes import add_modes, group_columns, load_modes, store_modes


@inlined
def read_strength(scale, i, gate, token):
    """The norm's scale of a token, zero where the gate masks it."""
    return np.float32(0.0) if is_masked(gate, token) else scale[i]


@kernel
def scan(holds, drive, scale, tokens, sizes, transition, gate, states):
    """Write the states of some tokens after the `history` rows before them, with which `states` begins.

    z[t] = p[t] * z[t-1] + scale[t] * gain[t] * drive[t]; nothing enters where the gate masks a token. On a regular grid
    `holds` is None, p the transition, and the gain one.
    """
    columns, shift, narrow = sizes.columns, sizes.history * sizes.columns, sizes.narrow
    for column in range(0, columns, group_columns(columns)):
        p_re, p_im = load_modes(transition, column, narrow)
        before = shift - columns + column
        z_re, z_im = load_modes(states, before, narrow)
        for i in range(tokens.count):
            strength, e = read_strength(scale, i, gate, tokens.first + i), i * columns + column
            d_re, d_im = load_modes(drive, e, narrow)
            if holds is not None:
                p_re, p_im = load_modes(holds.transition, e, narrow)
                g_re, g_im = load_modes(holds.gain, e, narrow)
                d_re, d_im = d_re * g_re - d_im * g_im, d_re * g_im + d_im * g_re
            next_re = p_re * z_re + (d_re * strength - p_im * z_im)
            z_im = p_re * z_im + (d_im * strength + p_im * z_re)
            z_re = next_re
            store_modes(states, e + shift, narrow, z_re, z_im)


@kernel
def scan_bwd(states, scale, tokens, sizes, transition, gate, behind, adjoint, d_transition):
    """Write the norm's scale times the adjoint states over `adjoint`, and add to the transition's gradient.

    The adjoint states a[t] = dz[t] + conj(transition) a[t+1] are the gradients of what entered the recurrence; they are
    zero where the gate masks a token. adjoint (n, columns) holds dz, and behind (columns,) the state a[t+1] behind the
    last token; afterwards that of the first.
    """
    columns, shift, rows, narrow = sizes.columns, sizes.history * sizes.columns, tokens.count, sizes.narrow
    for column in range(0, columns, group_columns(columns)):
        p_re, p_im = load_modes(transition, column, narrow)
        next_re, next_im = load_modes(behind, column, narrow)
        dp_re = dp_im = splat(0.0)
        for back in range(rows):
            t = rows - 1 - back
            here = t * columns + column
            before = here + shift - columns
            d_re, d_im = load_modes(adjoint, here, narrow)
            next_re, next_im = (
                p_re * next_re + (p_im * next_im + d_re), p_re * next_im + (d_im - p_im * next_re),
            )  # fmt: skip
            q_re, q_im = load_modes(states, before, narrow)
            dp_re = dp_re + next_re * q_re + next_im * q_im
            dp_im = dp_im + next_im * q_re - next_re * q_im
            strength = read_strength(scale, t, gate, tokens.first + t)
            store_modes(adjoint, here, narrow, next_re * strength, next_im * strength)
        store_modes(behind, column, narrow, next_re, next_im)
        add_modes(d_transition, column, narrow, dp_re, dp_im)


@kernel
def scan_at_bwd(holds, steps, table, drive, states, scale, tokens, sizes, gate, adjoint, d_transition):
    """The same over the steps of a whole irregular sequence; `adjoint` becomes the gradient of the drive before gains.

    With u = scale drive, the gradient of a pole is the sum over t of h conj(p[t]) (a[t] conj(z[t-1]) + e[t]
    conj(shrink)) - conj(shrink p(1) gain[t]) e[t], where e[t] = a[t] conj(u[t]) is that of the relative gain. What is
    added to d_transition is the gradient of p(1) that gives the pole the same.
    """
    columns, shift, rows, narrow = sizes.columns, sizes.history * sizes.columns, tokens.count, sizes.narrow
    for column in range(0, columns, group_columns(columns)):
        s_re, s_im = load_modes(table.shrink, column, narrow)
        a_re = a_im = b_re = b_im = p_re = p_im = next_re = next_im = splat(0.0)
        for back in range(rows):
            t = rows - 1 - back
            here = t * columns + column
            before = here + shift - columns
            d_re, d_im = load_modes(adjoint, here, narrow)
            # p is still that of the step behind.
            next_re, next_im = (
                p_re * next_re + (p_im * next_im + d_re), p_re * next_im + (d_im - p_im * next_re),
            )  # fmt: skip
            p_re, p_im = load_modes(holds.transition, here, narrow)
            g_re, g_im = load_modes(holds.gain, here, narrow)
            strength, h = read_strength(scale, t, gate, tokens.first + t), steps[tokens.first + t]
            w_re, w_im = next_re * strength, next_im * strength
            u_re, u_im = load_modes(drive, here, narrow)
            e_re, e_im = w_re * u_re + w_im * u_im, w_im * u_re - w_re * u_im
            q_re, q_im = load_modes(states, before, narrow)
            c_re = next_re * q_re + next_im * q_im + (e_re * s_re + e_im * s_im)
            c_im = next_im * q_re - next_re * q_im + (e_im * s_re - e_re * s_im)
            a_re = a_re + (c_re * p_re + c_im * p_im) * h
            a_im = a_im + (c_im * p_re - c_re * p_im) * h
            b_re, b_im = b_re + (e_re * g_re + e_im * g_im), b_im + (e_im * g_re - e_re * g_im)
            store_modes(adjoint, here, narrow, w_re * g_re + w_im * g_im, w_im * g_re - w_re * g_im)
        u_re, u_im = load_modes(table.undo, column, narrow)
        dp_re = a_re * u_re - a_im * u_im - (b_re * s_re + b_im * s_im)
        dp_im = a_re * u_im + a_im * u_re - (b_im * s_re - b_re * s_im)
        add_modes(d_transition, column, narrow, dp_re, dp_im)
