"""Diagonal recurrences z[t] = transition z[t-1] + drive[t] and their gradients on a CPU, compiled, states in the cache.

`scan_modes` is what S5 and LRU have between their dense maps: some modes for all channels. `scan_channels` is S4D:
every channel has modes of its own, which its input drives and its weights read; no state leaves the cache. States are
float64 whatever the dtype of inputs and outputs: the rounding of a slow transition would grow with every token.

The adjoint recurrence runs back in time, g[t] = dL/dz[t] + conj(transition) g[t+1] with g = 0 past the end. Then
d(drive)[t] = g[t] and d(transition) = sum over t of g[t] conj(z[t-1]).
"""

import math
from functools import partial
from typing import Any

import numpy as np

from alphabet_baselines.compiling import compile_kernel

BLOCK = 64  # channels: with eight modes a state takes 8 KiB
# Where a row of channels keeps what: states and transitions are [Re | Im], and the reading weights lie behind them.
IM, WEIGHT_RE, WEIGHT_IM, ROW = BLOCK, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK

kernel: Any = partial(compile_kernel, fastmath={"contract"})


@kernel
def scan_modes(transition, drive, states):  # type: ignore[no-untyped-def]
    """Write the states (B, T, 2M) of packed modes from their drive (B, T, 2M) and transition (2M,)."""
    sequences, length, _ = drive.shape
    modes = transition.size // 2
    state = np.empty(2 * modes)
    for b in range(sequences):
        state[:] = 0
        for t in range(length):
            for m in range(modes):
                re, im = state[m], state[modes + m]
                state[m] = transition[m] * re - transition[modes + m] * im + drive[b, t, m]
                state[modes + m] = transition[m] * im + transition[modes + m] * re + drive[b, t, modes + m]
                states[b, t, m], states[b, t, modes + m] = state[m], state[modes + m]


@kernel
def scan_modes_bwd(transition, states, grad, d_drive, d_transition):  # type: ignore[no-untyped-def]
    """Write the gradients of sequences; d_transition (B, 2M) has one for each and must be zero."""
    sequences, length, _ = grad.shape
    modes = transition.size // 2
    adjoint = np.empty(2 * modes)
    for b in range(sequences):
        adjoint[:] = 0
        for t in range(length - 1, -1, -1):
            for m in range(modes):
                re, im = adjoint[m], adjoint[modes + m]
                g_re = transition[m] * re + transition[modes + m] * im + grad[b, t, m]
                g_im = transition[m] * im - transition[modes + m] * re + grad[b, t, modes + m]
                adjoint[m], adjoint[modes + m] = g_re, g_im
                d_drive[b, t, m], d_drive[b, t, modes + m] = g_re, g_im
                if t > 0:
                    re, im = states[b, t - 1, m], states[b, t - 1, modes + m]
                    d_transition[b, m] += g_re * re + g_im * im
                    d_transition[b, modes + m] += g_im * re - g_re * im


@kernel
def scan_channels(system, inputs, outputs):  # type: ignore[no-untyped-def]
    """Write outputs (B, T, K, BLOCK) of inputs (B, T, K, BLOCK): the sum over modes of Re(weight z).

    system (K, N, ROW): for K blocks of channels and N modes, transitions and weights.
    """
    sequences, length, blocks, _ = inputs.shape
    state = np.empty((system.shape[1], 2 * BLOCK))
    for b in range(sequences):
        for k in range(blocks):
            rows = system[k]
            state[:] = 0
            for t in range(length):
                advance_and_read(state, rows, inputs[b, t, k], outputs[b, t, k])


@kernel
def scan_channels_bwd(system, inputs, grad, d_inputs, d_system):  # type: ignore[no-untyped-def]
    """Write the gradients of sequences; d_system (B, K, N, ROW) has one for each and must be zero.

    Of a block's states only every sqrt(T)-th is kept; those of a stretch are computed again before the adjoint state
    runs back over it.
    """
    sequences, length, blocks, _ = inputs.shape
    modes = system.shape[1]
    stretch = math.ceil(math.sqrt(length))
    starts = np.empty((math.ceil(length / stretch), modes, 2 * BLOCK))
    states = np.empty((stretch + 1, modes, 2 * BLOCK))  # states[i + 1] is the one after the stretch's token i
    adjoint = np.empty((modes, 2 * BLOCK))
    for b in range(sequences):
        for k in range(blocks):
            rows, d_rows = system[k], d_system[b, k]
            starts[0] = 0
            for s in range(len(starts) - 1):
                advance_stretch(starts[s], states, rows, inputs[b, s * stretch : (s + 1) * stretch, k])
                starts[s + 1] = states[stretch]
            adjoint[:] = 0
            for s in range(len(starts) - 1, -1, -1):
                tokens = inputs[b, s * stretch : (s + 1) * stretch, k]
                advance_stretch(starts[s], states, rows, tokens)
                for i in range(len(tokens) - 1, -1, -1):
                    t = s * stretch + i
                    retreat(adjoint, rows, grad[b, t, k], d_inputs[b, t, k])
                    collect(adjoint, states[i], states[i + 1], grad[b, t, k], d_rows)


@kernel
def advance_and_read(state, rows, inputs, outputs):  # type: ignore[no-untyped-def]
    """One token: the states after it, in place, and its outputs."""
    for e in range(BLOCK):
        outputs[e] = 0
    for n in range(len(state)):
        for e in range(BLOCK):
            re = rows[n, e] * state[n, e] - rows[n, IM + e] * state[n, IM + e] + inputs[e]
            im = rows[n, e] * state[n, IM + e] + rows[n, IM + e] * state[n, e]
            state[n, e] = re
            state[n, IM + e] = im
            outputs[e] += rows[n, WEIGHT_RE + e] * re - rows[n, WEIGHT_IM + e] * im


@kernel
def advance_stretch(start, states, rows, inputs):  # type: ignore[no-untyped-def]
    """The states of a stretch of tokens. They never share memory: a loop over arrays that overlap is not a vector."""
    states[0] = start
    for i in range(len(inputs)):
        advance(states[i], states[i + 1], rows, inputs[i])


@kernel
def advance(before, after, rows, inputs):  # type: ignore[no-untyped-def]
    """The states after one token."""
    for n in range(len(before)):
        for e in range(BLOCK):
            after[n, e] = rows[n, e] * before[n, e] - rows[n, IM + e] * before[n, IM + e] + inputs[e]
            after[n, IM + e] = rows[n, e] * before[n, IM + e] + rows[n, IM + e] * before[n, e]


@kernel
def retreat(adjoint, rows, grad, d_inputs):  # type: ignore[no-untyped-def]
    """One token backward: `adjoint` holds g[t+1] and becomes g[t]; its real part is what the input receives."""
    for e in range(BLOCK):
        d_inputs[e] = 0
    for n in range(len(adjoint)):
        for e in range(BLOCK):
            re = rows[n, e] * adjoint[n, e] + rows[n, IM + e] * adjoint[n, IM + e] + grad[e] * rows[n, WEIGHT_RE + e]
            im = rows[n, e] * adjoint[n, IM + e] - rows[n, IM + e] * adjoint[n, e] - grad[e] * rows[n, WEIGHT_IM + e]
            adjoint[n, e] = re
            adjoint[n, IM + e] = im
            d_inputs[e] += re


@kernel
def collect(adjoint, before, after, grad, d_rows):  # type: ignore[no-untyped-def]
    """Add what one token gives to the gradients of transitions and weights."""
    for n in range(len(adjoint)):
        for e in range(BLOCK):
            re, im = adjoint[n, e], adjoint[n, IM + e]
            d_rows[n, e] += re * before[n, e] + im * before[n, IM + e]
            d_rows[n, IM + e] += im * before[n, e] - re * before[n, IM + e]
            d_rows[n, WEIGHT_RE + e] += grad[e] * after[n, e]
            d_rows[n, WEIGHT_IM + e] -= grad[e] * after[n, IM + e]
