"""Mamba's selective scan and its gradients on a CPU, compiled: a block of channels at a time, states in the cache.

Sequences are independent and may be computed by several threads; what they share, the rates' gradient, is kept apart
for each.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from numba.extending import overload

from alphabet_baselines.compiling import compile_kernel

BLOCK = 64  # channels: with 32 states the block's state takes 8 KiB, and a loop over channels fills the registers

# Sums over channels may be reordered, so that they are added up in vectors; nothing assumes that numbers are finite.
FAST_MATH = {"reassoc", "contract"}

kernel: Any = partial(compile_kernel, fastmath=FAST_MATH)


def exponentials(step: Any, rate: Any, n: int, out: Any, power: Any) -> None:
    """Write exp(step rate[n]) of a block's channels to `out`; `power` holds integers on the way."""


@overload(exponentials, jit_options={"error_model": "numpy", "fastmath": FAST_MATH})  # type: ignore[untyped-decorator]  # numba has no types
def _exponentials(step: Any, rate: Any, n: int, out: Any, power: Any) -> Any:  # noqa: ARG001
    return _exponentials_float32 if out.dtype.bitwidth == 32 else _exponentials_float64


def _exponentials_float64(step: Any, rate: Any, n: int, out: Any, power: Any) -> Any:  # noqa: ARG001
    for e in range(BLOCK):
        out[e] = math.exp(step[e] * rate[n, e])


def _exponentials_float32(step: Any, rate: Any, n: int, out: Any, power: Any) -> Any:
    """exp(x) = 2**whole 2**r with |r| <= 1/2 and a polynomial for the latter: within 1e-7 (1 + |x|), in vectors."""
    for e in range(BLOCK):
        x = step[e] * rate[n, e] * np.float32(1.4426950408889634)
        x = np.float32(-127.0) if x < np.float32(-127.0) else x  # 2**-127 and 2**128 become 0 and infinity below;
        x = np.float32(128.0) if x > np.float32(128.0) else x  # not min and max, which would lose a NaN
        whole = np.rint(x)
        r = x - whole
        p = np.float32(0.00015353359745057943) * r + np.float32(0.0013398874415975655)
        p = p * r + np.float32(0.009618437366359447)
        p = p * r + np.float32(0.055503324711482865)
        p = p * r + np.float32(0.2402264791354494)
        p = p * r + np.float32(0.6931472028550082)
        out[e] = p * r + np.float32(1.0)
        power[e] = (np.int32(whole) + np.int32(127)) << np.int32(23)
    scale = power.view(np.float32)
    for e in range(BLOCK):
        out[e] *= scale[e]


@kernel
def scan_sequences(rate, inputs, step, to_state, from_state, outputs):  # type: ignore[no-untyped-def]
    """Write the outputs of sequences; the arrays of channels are (B, T, K, BLOCK) for K blocks, rate (K, N, BLOCK)."""
    sequences, length, blocks, _ = inputs.shape
    states = np.empty((2, *rate[0].shape), inputs.dtype)  # in turn: loops over arrays that overlap are not vectors
    decay, driven, power = np.empty(BLOCK, inputs.dtype), np.empty(BLOCK, inputs.dtype), np.empty(BLOCK, np.int32)
    for b in range(sequences):
        for k in range(blocks):
            states[0] = 0
            for t in range(length):
                before, after = states[t % 2], states[1 - t % 2]
                drive(inputs[b, t, k], step[b, t, k], driven)
                advance(before, after, driven, step[b, t, k], rate[k], to_state[b, t], decay, power)
                read(after, from_state[b, t], outputs[b, t, k])


@kernel
def scan_sequences_bwd(  # type: ignore[no-untyped-def]
    rate, inputs, step, to_state, from_state, grad, d_inputs, d_step, d_rate, d_to, d_from
):
    """Write the gradients of sequences. d_rate (B, K, N, BLOCK) has one for each; it, d_to and d_from must be zero.

    The states of a block of channels are computed again and kept while the adjoint states run back over them.
    """
    sequences, length, blocks, _ = inputs.shape
    states = np.empty((length + 1, *rate[0].shape), inputs.dtype)  # states[t + 1] is h[t]
    adjoint = np.empty(rate[0].shape, inputs.dtype)
    decay, driven, power = np.empty(BLOCK, inputs.dtype), np.empty(BLOCK, inputs.dtype), np.empty(BLOCK, np.int32)
    for b in range(sequences):
        for k in range(blocks):
            states[0] = 0
            for t in range(length):
                drive(inputs[b, t, k], step[b, t, k], driven)
                advance(states[t], states[t + 1], driven, step[b, t, k], rate[k], to_state[b, t], decay, power)
            adjoint[:] = 0
            for t in range(length - 1, -1, -1):
                drive(inputs[b, t, k], step[b, t, k], driven)
                retreat(
                    adjoint, states[t], states[t + 1], driven, step[b, t, k], rate[k], to_state[b, t], from_state[b, t],
                    grad[b, t, k], d_inputs[b, t, k], d_step[b, t, k], d_rate[b, k], d_to[b, t], d_from[b, t],
                    decay, power,
                )  # fmt: skip
                undrive(inputs[b, t, k], step[b, t, k], d_inputs[b, t, k], d_step[b, t, k])


@kernel
def drive(inputs, step, driven):  # type: ignore[no-untyped-def]
    """What enters the states before to_state: step inputs."""
    for e in range(BLOCK):
        driven[e] = step[e] * inputs[e]


@kernel
def undrive(inputs, step, d_inputs, d_step):  # type: ignore[no-untyped-def]
    """From the gradient of step inputs, which `d_inputs` holds, to that of each."""
    for e in range(BLOCK):
        d_step[e] += d_inputs[e] * inputs[e]
        d_inputs[e] *= step[e]


@kernel
def advance(before, after, driven, step, rate, to_state, decay, power):  # type: ignore[no-untyped-def]
    """One token: h[t] = exp(step rate) h[t-1] + driven to_state."""
    for n in range(to_state.size):
        exponentials(step, rate, n, decay, power)
        for e in range(BLOCK):
            after[n, e] = decay[e] * before[n, e] + driven[e] * to_state[n]


@kernel
def read(state, from_state, outputs):  # type: ignore[no-untyped-def]
    """One token's outputs, the sum over states of from_state h."""
    for e in range(BLOCK):
        outputs[e] = 0
    for n in range(from_state.size):
        for e in range(BLOCK):
            outputs[e] += from_state[n] * state[n, e]


@kernel
def retreat(  # type: ignore[no-untyped-def]
    adjoint, before, after, driven, step, rate, to_state, from_state, grad, d_driven, d_step, d_rate, d_to, d_from,
    decay, power,
):  # fmt: skip
    """One token backward: `adjoint` holds exp(step[t+1] rate) g[t+1] and becomes exp(step[t] rate) g[t].

    Each loop reads few arrays: the compiler can then check at its start that none overlap, and makes vectors of it.
    """
    for e in range(BLOCK):
        d_driven[e] = 0
        d_step[e] = 0
    for n in range(to_state.size):
        into, out_of = to_state[n], from_state[n]
        total = zero = into * 0
        for e in range(BLOCK):
            adjoint[n, e] += grad[e] * out_of
            total += grad[e] * after[n, e]
        d_from[n] += total
        total = zero
        for e in range(BLOCK):
            total += driven[e] * adjoint[n, e]
            d_driven[e] += adjoint[n, e] * into
        d_to[n] += total
        exponentials(step, rate, n, decay, power)
        for e in range(BLOCK):
            adjoint[n, e] *= decay[e]
            decay[e] = adjoint[n, e] * before[n, e]  # the gradient of the exponent step rate
        for e in range(BLOCK):
            d_rate[n, e] += decay[e] * step[e]
        for e in range(BLOCK):
            d_step[e] += decay[e] * rate[n, e]
