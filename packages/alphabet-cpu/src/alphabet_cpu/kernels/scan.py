"""The recurrence of a bank's modes over the tokens, forward and backward (Algorithm 1, lines 8 and 14).

A row of states is sixteen real parts, their sixteen imaginary parts, the next sixteen modes' and so on. The states of
some tokens come after those of the four tokens before them, which lag products still ask for.
"""

from typing import Any, NamedTuple

import numpy as np
from alphabet_core.fused import LAGS

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import LANES, load, splat, store
from alphabet_cpu.kernels.layout import Mask, is_masked
from alphabet_cpu.kernels.lift import Lifted

HISTORY = max(LAGS)  # rows of earlier states in front of those of some tokens
assert LAGS == (1, 2, 4)  # `scan_bwd` writes them out


class BankMasks(NamedTuple):
    """Which tokens count, and which may enter the bank."""

    valid: Mask
    gate: Mask


class KeptBank(NamedTuple):
    """What a bank's forward pass keeps for the backward pass: its lift, and its states after four rows of zeros."""

    lifted: Lifted
    states: Any


@kernel
def scan(drive, scale, tokens, columns, transition, gate, states):
    """Write the states of some tokens after the four rows before them, with which `states` (4 + n, columns) begins.

    z[t] = transition * z[t-1] + scale[t] * drive[t]; nothing enters where the gate masks a token.
    """
    for column in range(0, columns, 2 * LANES):
        p_re, p_im = load(transition, column), load(transition, column + LANES)
        before = (HISTORY - 1) * columns + column
        z_re, z_im = load(states, before), load(states, before + LANES)
        for i in range(tokens.count):
            strength = scale[i]
            if is_masked(gate, tokens.first + i):
                strength = np.float32(0.0)
            e = i * columns + column
            next_re = p_re * z_re + (load(drive, e) * strength - p_im * z_im)
            z_im = p_re * z_im + (load(drive, e + LANES) * strength + p_im * z_re)
            z_re = next_re
            store(states, e + HISTORY * columns, z_re)
            store(states, e + HISTORY * columns + LANES, z_im)


@kernel
def scan_bwd(kept, tokens, columns, transition, masks, d_sums, adjoint, moments_only, d_transition):
    """Write the norm's scale times the adjoint states over `adjoint`, and add to the transition's gradient.

    The adjoint states a[t] = dz[t] + conj(transition) a[t+1], zero past the end, are the gradients of what entered the
    recurrence; they are zero where the gate masks a token. dz comes from the gradients of the bank's moment sums,
    d_sums (7, modes), and from what `adjoint` (n, columns) holds unless only moments read the states.
    """
    states, scale, valid, gate = kept.states, kept.lifted.scale, masks.valid, masks.gate
    modes, rows, token = columns // 2, tokens.count, tokens.first
    for column in range(0, columns, 2 * LANES):
        p_re, p_im = load(transition, column), load(transition, column + LANES)
        g = column // 2
        energy = load(d_sums, g) * 2.0
        a_1, b_1 = load(d_sums, g + modes), load(d_sums, g + 2 * modes)
        a_2, b_2 = load(d_sums, g + 3 * modes), load(d_sums, g + 4 * modes)
        a_4, b_4 = load(d_sums, g + 5 * modes), load(d_sums, g + 6 * modes)
        dp_re, dp_im = load(d_transition, column), load(d_transition, column + LANES)
        next_re = next_im = splat(0.0)
        for back in range(rows):
            t = rows - 1 - back
            here = t * columns + column
            o = here + HISTORY * columns
            # First what does not wait for the adjoint state of the token behind.
            d_re = d_im = splat(0.0)
            if not moments_only:
                d_re, d_im = load(adjoint, here), load(adjoint, here + LANES)
            if not is_masked(valid, token + t):
                d_re = d_re + energy * load(states, o)
                d_im = d_im + energy * load(states, o + LANES)
                for lag in (1, 2, 4):
                    a = a_1 if lag == 1 else (a_2 if lag == 2 else a_4)
                    b = b_1 if lag == 1 else (b_2 if lag == 2 else b_4)
                    # Without a mask the states outside of the sequence are zero, and so is their share.
                    if not valid.given or (t >= lag and not is_masked(valid, token + t - lag)):
                        q_re, q_im = load(states, o - lag * columns), load(states, o - lag * columns + LANES)
                        d_re = d_re + a * q_re - b * q_im
                        d_im = d_im + a * q_im + b * q_re
                    if not valid.given or (t + lag < rows and not is_masked(valid, token + t + lag)):
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
            if is_masked(gate, token + t):
                strength = np.float32(0.0)
            store(adjoint, here, d_re * strength)
            store(adjoint, here + LANES, d_im * strength)
        store(d_transition, column, dp_re)
        store(d_transition, column + LANES, dp_im)
