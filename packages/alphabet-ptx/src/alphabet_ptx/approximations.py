"""How wrong the approximate instructions may be, and results that are that wrong.

`BOUNDS` has what NVIDIA's manual "Parallel Thread Execution ISA" states for float32, in its chapter "Floating Point
Instructions" (9.7.3); the section stands beside each bound, and each was compared with its text. The manual gives no
bound for arguments of sin and cos beyond 100 pi ("best effort"), where the one up to there is used, nor for the float64
forms of rcp and rsqrt, which stay as they are. A bound in ulps is taken from the exact result, and where the manual
says so from the correctly rounded one. What it fixes exactly stays exact: special values, results of zero and results
at zero (ex2 and cos of 0 are 1).

The direction of an error is a function of the seed, the instruction and its operands: as on a GPU, equal operands give
equal results, wherever and however often they are computed.
"""

from collections.abc import Callable
from zlib import crc32

import numpy as np

from alphabet_ptx.datatypes import Array
from alphabet_ptx.rounding import round_f32

Bound = Callable[[Array, Array], Array]  # the first operand and the exact result, both float64, to the largest error


def _ulps(count: int) -> Bound:
    return lambda _, exact: count * np.spacing(round_f32(np.abs(exact), "rz")).astype(np.float64)


def _ulps_from_rounded(count: int) -> Bound:
    ulps = _ulps(count)
    return lambda operand, exact: ulps(operand, exact) + np.abs(exact.astype(np.float32) - exact)


def _relative(exponent: float) -> Bound:
    return lambda _, exact: np.abs(exact) * 2.0**exponent


def _trigonometric(operand: Array, exact: Array) -> Array:
    return np.where(np.abs(operand) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7) + 0.0 * exact


def _logarithm(operand: Array, exact: Array) -> Array:
    return np.where((operand > 0.5) & (operand < 2), 2.0**-22, np.abs(exact) * 2.0**-22)


BOUNDS: dict[str, Bound] = {
    "div.approx": _ulps(2),  # 9.7.3.8, divisors from 2**-126 to 2**126; by larger ones the quotient is zero
    "div.full": _ulps(2),  # 9.7.3.8, all operands
    "rcp.approx": _ulps(1),  # 9.7.3.13
    "sqrt.approx": _relative(-23),  # 9.7.3.15
    "rsqrt.approx": _relative(-22.9),  # 9.7.3.16
    "sin.approx": _trigonometric,  # 9.7.3.18: absolute, 2**-20.5 up to 2 pi, 2**-14.7 up to 100 pi
    "cos.approx": _trigonometric,  # 9.7.3.19: the same
    "lg2.approx": _logarithm,  # 9.7.3.20: absolute between 0.5 and 2, else relative, 2**-22
    "ex2.approx": _ulps_from_rounded(2),  # 9.7.3.21
    "tanh.approx": _relative(-11),  # 9.7.3.22
}


def approximate(name: str, exact: Array, operands: tuple[Array, ...], seed: int) -> Array:
    """Float32 results of instruction `name` that are as far from `exact` (float64) as it may be."""
    ideal = exact.astype(np.float32)
    bound = BOUNDS[name](operands[0].astype(np.float64), exact)
    shifted = (exact + directions(name, operands, seed) * bound).astype(np.float32)
    shifted = np.where(_error(shifted, exact) > bound, np.nextafter(shifted, ideal), shifted)
    fixed = ~np.isfinite(ideal) | ~np.isfinite(shifted) | (exact == 0) | (operands[0] == 0)
    # Where no other number is near enough, as among subnormal ones, the nearest stays.
    return np.where(fixed | (_error(shifted, exact) > bound), ideal, shifted)


def _error(value: Array, exact: Array) -> Array:
    return np.asarray(np.abs(value.astype(np.float64) - exact))


def directions(name: str, operands: tuple[Array, ...], seed: int) -> Array:
    """Plus or minus one for each element."""
    state = np.full(operands[0].shape, crc32(f"{name} {seed}".encode()), np.uint64)
    for operand in operands:
        state = _scramble(state ^ operand.astype(np.float32).view(np.uint32))
    return np.where(state >> np.uint64(63), 1.0, -1.0)


def _scramble(state: Array) -> Array:
    """Sixty-four bits that all depend on all of `state` (the finalizer of splitmix64, Steele et al. 2014)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))
