"""Algorithm 1 as plain loops: one sequence, one token, one mode at a time, in complex float64.

Nothing here is fast and nothing here is shared with the model except its parameters. Every faster form of ALPHABET, in
this package and in the others, is tested against it.
"""

import cmath
import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.model import Alphabet, Bank

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Value = TypeVar("Value", np.float64, np.complex128)

OFFSETS = (-8.0, -4.0, 0.0, 4.0, 8.0)
SNAP = 1e-6


def describe_by_definition(
    model: Alphabet,
    values: Tensor,
    *,
    time_delta: Tensor | None = None,
    observed: Tensor | None = None,
    valid: Tensor | None = None,
) -> Array:
    """The descriptor (B, banks, M, 1 + 2 lags), as `Alphabet.describe` defines it."""
    rows = []
    for b in range(values.shape[0]):
        x = _array(values[b])
        steps, channels = x.shape
        h = np.ones(steps) if time_delta is None else _array(time_delta[b])
        w = np.ones(steps, bool) if valid is None else _array(valid[b]) != 0
        o = np.ones((steps, channels), bool) if observed is None else _array(observed[b]) != 0
        if o.ndim == 1:
            o = np.repeat(o[:, None], channels, axis=1)
        rows.append(_describe_one(model, x, h, o, w))
    return np.stack(rows)


def logits_by_definition(model: Alphabet, descriptor: Array) -> Array:
    """The logits (B, K) that the affine head reads from a descriptor."""
    weight, bias = _array(model.head.weight), _array(model.head.bias)  # type: ignore[arg-type]
    return descriptor.reshape(len(descriptor), -1) @ weight.T + bias


def _describe_one(model: Alphabet, x: Array, h: Array, o: NDArray[np.bool_], w: NDArray[np.bool_]) -> Array:
    clock = np.cumsum(h)
    projection, direct, lags = _array(model.project.weight), model.direct, model.config.lags
    steps, width = len(x), len(projection)

    features = np.zeros((steps, width))
    for t in range(steps):
        readable = [c for c in range(x.shape[1]) if w[t] and o[t, c]]
        features[t] = sum((projection[:, c] * x[t, c] for c in readable), np.zeros(width))
    lifted = _lift(direct, features, clock, w)
    normed = _norm(direct, lifted)
    states = _scan(direct, normed, h, [bool(w[t] and o[t].any()) for t in range(steps)])
    blocks = [_read(states, clock, w, lags)]
    if model.cascaded is None:
        return np.stack(blocks)

    stream = lifted
    if model.synthesis is not None:
        scale, feedthrough = _array(model.synthesis.scale), _array(model.synthesis.feedthrough)
        packed = np.concatenate((states.real, states.imag), axis=1)
        stream = lifted + scale * (packed @ _frame(direct).T + feedthrough * normed)
    normed = _norm(model.cascaded, _lift(model.cascaded, stream, clock, w))
    states = _scan(model.cascaded, normed, h, [bool(valid) for valid in w])
    blocks.append(_read(states, clock, w, lags))
    return np.stack(blocks)


def _lift(bank: Bank, features: Array, clock: Array, w: NDArray[np.bool_]) -> Array:
    kernel, bias = _array(bank.lift.kernel), _array(bank.lift.bias)
    lifted = np.zeros_like(features)
    for t in range(len(features)):
        if not w[t]:
            continue
        total = bias.copy()
        for k, offset in enumerate(OFFSETS):
            tap = _query(features, clock, w, clock[t] + offset)
            if tap is not None:
                total += kernel[:, k] * tap
        lifted[t] = total / (1.0 + np.exp(-total))
    return lifted


def _norm(bank: Bank, features: Array) -> Array:
    gain = _array(bank.norm.gain)
    return np.stack([gain * row / math.sqrt(float(np.mean(row * row)) + 1e-6) for row in features])


def _scan(bank: Bank, normed: Array, h: Array, gate: list[bool]) -> ComplexArray:
    frame = _frame(bank)
    modes = frame.shape[1] // 2
    raw_decay, raw_frequency = _array(bank.poles.raw_decay), _array(bank.poles.raw_frequency)
    states = np.zeros((len(normed), modes), complex)
    for m in range(modes):
        decay = 1e-3 + (2.0 - 1e-3) / (1.0 + math.exp(-raw_decay[m]))
        pole = complex(-decay, math.pi * math.tanh(raw_frequency[m]))
        z = 0j
        for t, row in enumerate(normed):
            excitation = complex(row @ frame[:, m], row @ frame[:, modes + m])
            z = cmath.exp(pole * h[t]) * z
            if gate[t]:
                z += _gain(pole, h[t]) * excitation
            states[t, m] = z
    return states


def _gain(pole: complex, h: float) -> complex:
    """(exp(pole h) - 1) / pole by its power series where the quotient would cancel, h where |pole h| < 1e-6."""
    x = pole * h
    if abs(x) < 1e-6:
        return complex(h)
    if abs(x) < 0.1:
        return h * sum((x**k / math.factorial(k + 1) for k in range(12)), 0j)
    return (cmath.exp(x) - 1.0) / pole


def _read(states: ComplexArray, clock: Array, w: NDArray[np.bool_], lags: tuple[int, ...]) -> Array:
    """(M, 1 + 2 lags): the conditioned moments of one bank."""
    steps, modes = states.shape
    columns = []
    for lag in (0, *lags):
        total, count = np.zeros(modes, complex), 0
        for t in range(steps):
            earlier = _query(states, clock, w, clock[t] - lag) if w[t] else None
            if earlier is not None:
                total += states[t] * earlier.conj()
                count += 1
        moment = total / max(1, count)
        if lag == 0:
            columns.append(np.log1p(moment.real))
            continue
        radius = np.abs(moment)
        ratio = np.array([math.log1p(r) / r if r > 0 else 1.0 for r in radius])
        columns += [(moment * ratio).real, (moment * ratio).imag]
    return np.stack(columns, axis=1)


def _query(trajectory: NDArray[Value], clock: Array, w: NDArray[np.bool_], instant: float) -> NDArray[Value] | None:
    """The piecewise-linear interpolant of the trajectory at an instant, None without support."""
    token = _represent(clock, w, instant)
    if token is not None:
        return np.asarray(trajectory[token])
    for t in range(len(clock) - 1):
        if clock[t] <= instant < clock[t + 1]:
            left, right = _represent(clock, w, clock[t]), _represent(clock, w, clock[t + 1])
            if left is None or right is None:
                return None
            blend = (instant - clock[left]) / (clock[right] - clock[left])
            return np.asarray((1.0 - blend) * trajectory[left] + blend * trajectory[right])
    return None


def _represent(clock: Array, w: NDArray[np.bool_], instant: float) -> int | None:
    """The token that stands for an instant: the earliest valid one within the snapping distance, None if none is."""
    for t, time in enumerate(clock):
        if abs(time - instant) <= SNAP and w[t]:
            return t
    return None


def _frame(bank: Bank) -> Array:
    """The frame by its own definition: the first columns of base exp(skew)."""
    if isinstance(bank.frame, FixedFrame):
        return _array(bank.frame.columns_matrix)
    frame: Frame = bank.frame
    base, tangent = _array(frame.base), _array(frame.tangent)
    skew = np.zeros_like(base)
    skew[:, : tangent.shape[1]] = 0.1 * tangent
    skew -= skew.T
    term, total = np.eye(len(base)), np.eye(len(base))
    for k in range(1, 40):
        term = term @ skew / k
        total += term
    return base @ total[:, : tangent.shape[1]]


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
