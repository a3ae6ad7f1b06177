"""Correct rounding where numpy has no operation for it: fused products, directed modes, bfloat16, tf32.

The float64 product of two float32 numbers is exact, but adding a third and rounding to float32 would round twice.
Rounding the sum to odd first (the neighbour with an odd last bit unless the sum is exact) keeps what the second
rounding has to know: float64 has more than two bits beyond float32 (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from fractions import Fraction

import numpy as np

from alphabet_ptx.datatypes import Array

# A float64 rounds differently from its exact origin only if it lies on the border between two float32 numbers, and then
# its last 28 bits are zero, whether the float32 is normal or not.
_BORDER = np.uint64(0x0FFFFFFF)
_TF32_BITS = np.uint32(0xFFFFE000)
# Beyond these magnitudes the error terms of a float64 product overflow or lose bits: then fractions do the work.
_SAFE = (1e-120, 1e120)


def add_to_odd(a: Array, b: Array) -> Array:
    """The sum in float64, rounded to odd."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    inexact = (error != 0) & np.isfinite(total) & ((total.view(np.uint64) & np.uint64(1)) == 0)
    if not inexact.any():
        return total
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact, np.nextafter(total, toward), total)


def add_directed(a: Array, b: Array, mode: str) -> Array:
    """The sum, to be rounded in `mode` later; opposite numbers add up to -0 if that rounds down."""
    total = add_to_odd(a, b)
    if mode == "rm":
        total = np.where((total == 0) & (np.signbit(a) != np.signbit(b)), -0.0, total)
    return total


def round_f32(value: Array, mode: str) -> Array:
    """A float64 that is exact or rounded to odd, as float32 in mode rn, rz, rm or rp."""
    nearest = value.astype(np.float32)
    if mode == "rn":
        return nearest
    wide = nearest.astype(np.float64)
    beyond = {"rz": np.abs(wide) > np.abs(value), "rm": wide > value, "rp": wide < value}[mode]
    target = {"rz": np.float32(0), "rm": np.float32(-np.inf), "rp": np.float32(np.inf)}[mode]
    return np.where(beyond, np.nextafter(nearest, target), nearest)


def fma_f32(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """Fused product and sum of float32: a * b + c, rounded once."""
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    if mode != "rn":
        return round_f32(add_directed(product, c.astype(np.float64), mode), mode)
    rounded = total.astype(np.float32)
    beyond = total.view(np.uint64) & _BORDER
    if np.count_nonzero(beyond) < beyond.size:
        border = beyond == 0
        rounded[border] = add_to_odd(product[border], c[border].astype(np.float64)).astype(np.float32)
    return rounded


def fma_f16(a: Array, b: Array, c: Array) -> Array:
    """Fused product and sum of float16: a * b + c, rounded once."""
    return add_to_odd(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float16)


def fma_bf16(a: Array, b: Array, c: Array) -> Array:
    """Fused product and sum of bfloat16: a * b + c, rounded once."""
    x, y, z = (decode_bf16(part).astype(np.float64) for part in (a, b, c))
    return encode_bf16(_to_odd_f32(add_to_odd(x * y, z)))


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Fused product and sum of float64: a * b + c, rounded once."""
    product = a * b
    result = product + c
    magnitudes = np.abs(np.array([a, b, c, product]))
    safe = ((magnitudes == 0) | ((magnitudes > _SAFE[0]) & (magnitudes < _SAFE[1]))).all(axis=0)
    everywhere = bool(safe.all())
    if everywhere or safe.any():
        x, y, z = (a, b, c) if everywhere else (np.where(safe, part, 0.0) for part in (a, b, c))
        high, low = _exact_product(x, y)
        inner, inner_error = _exact_sum(z, low)
        outer, outer_error = _exact_sum(high, inner)
        fused = outer + add_to_odd(inner_error, outer_error)
        result = np.where(safe & (fused != 0), fused, result)  # a zero keeps the sign of the plain expression
        if everywhere:
            return result
    for i in np.flatnonzero(~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        result[i] = _fraction_to_float(Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i]), result[i])
    return result


def _fraction_to_float(exact: Fraction, plain: float) -> float:
    if exact == 0:
        return plain
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Dekker's product: high + low is a * b exactly."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(a: Array) -> Array:
    scaled = a * 134217729.0  # 2**27 + 1
    return scaled - (scaled - a)


def flush(value: Array) -> Array:
    """`.ftz`: subnormal float32 numbers become zeros of their sign; other types have no such modifier."""
    tiny = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), value), value) if tiny.any() else value


def decode_bf16(bits: Array) -> Array:
    """The float32 numbers that bfloat16 bits stand for."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def encode_bf16(value: Array, mode: str = "rn") -> Array:
    """float32 as bfloat16 bits, to the nearest (ties to even) or towards zero."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    if mode == "rn":
        rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        bits = np.where(np.isnan(value), np.uint32(0x7FFF0000), rounded)
    return (bits >> np.uint32(16)).astype(np.uint16)


def encode_f16(value: Array, mode: str = "rn") -> Array:
    """float32 or float64 as float16, to the nearest or towards zero."""
    nearest = value.astype(np.float16)
    if mode == "rn":
        return nearest
    beyond = np.abs(nearest.astype(value.dtype)) > np.abs(value)
    return np.where(beyond, np.nextafter(nearest, np.float16(0)), nearest)


def _to_odd_f32(value: Array) -> Array:
    """float64 as float32, rounded to odd: what a later rounding to bfloat16 needs."""
    down = round_f32(value, "rz")
    inexact = np.isfinite(value) & (down.astype(np.float64) != value)
    return np.where(inexact, down.view(np.uint32) | np.uint32(1), down.view(np.uint32)).view(np.float32)


def truncate_tf32(bits: Array) -> Array:
    """What the tensor cores see of a float32: its upper 19 bits."""
    return (bits & _TF32_BITS).view(np.float32)


def round_tf32(value: Array, mode: str) -> Array:
    """float32 to the nearest tf32, ties away from zero (rna) or to even (rn), as bits."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    half = np.uint32(0x1000) if mode == "rna" else np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return np.where(np.isnan(value), np.uint32(0x7FFFE000), (bits + half) & _TF32_BITS).astype(np.uint32)
