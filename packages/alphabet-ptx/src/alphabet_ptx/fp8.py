"""The two 8-bit floating types: e4m3, without infinities, and e5m2, which is the upper half of a float16.

Rounding is to the nearest, ties to even, and saturates: what lies beyond the largest number, infinity included, becomes
it (`.satfinite`, which PTX demands); NaN becomes 0x7F.
"""

import numpy as np

from alphabet_ptx.datatypes import Array

NAN_BITS = np.uint8(0x7F)


def _positive_e4m3() -> Array:
    """The numbers of the bits 0x00 to 0x7E: exponents from -6, three bits behind the point."""
    bits = np.arange(0x7F)
    exponent, fraction = bits >> 3, bits & 7
    return np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10.0))


# The finite numbers of a type that are not negative, in the order of their bits; half of the places are then NaN.
_POSITIVE = {
    "e4m3": _positive_e4m3(),
    "e5m2": (np.arange(0x7C, dtype=np.uint16) << 8).view(np.float16).astype(np.float64),
}
# Bits behind the point, and the smallest exponent of a normal number.
_FORMATS = {"e4m3": (3, -6), "e5m2": (2, -14)}


def decode_fp8(bits: Array, kind: str) -> Array:
    """The float16 numbers that the bits of e4m3 or e5m2 stand for; float16 has all of them."""
    if kind == "e5m2":
        return (bits.astype(np.uint16) << 8).view(np.float16)
    magnitude = np.concatenate([_POSITIVE[kind], [np.nan]])[bits & 0x7F]
    return np.where(bits & 0x80, -magnitude, magnitude).astype(np.float16)


def encode_fp8(value: Array, kind: str) -> Array:
    """Numbers of a wider type as the bits of e4m3 or e5m2."""
    places, lowest = _FORMATS[kind]
    numbers = _POSITIVE[kind]
    size = np.abs(value.astype(np.float64))
    finite = np.where(size < 2 * numbers[-1], size, numbers[-1])  # NaN, too, for the time being
    exponent = np.maximum(np.frexp(finite)[1] - 1, lowest)
    quantum = np.ldexp(1.0, exponent - places)
    rounded = np.minimum(np.rint(finite / quantum) * quantum, numbers[-1])
    bits = np.searchsorted(numbers, rounded).astype(np.uint8)
    return np.where(np.isnan(value), NAN_BITS, bits | (np.signbit(value).astype(np.uint8) << 7)).astype(np.uint8)
