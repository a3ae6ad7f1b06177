"""Fused products and directed rounding against exact fractions, where double rounding would show."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from alphabet_ptx.rounding import fma_bf16, fma_f16, fma_f32, fma_f64, round_f32, round_tf32, truncate_tf32
from alphabet_testing.ptx.snippets import FORMATS, decode_bf16, encode_bf16, round_fraction
from hypothesis import given
from hypothesis import strategies as st

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def check(function, kind, a, b, c, *mode):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    with np.errstate(all="ignore"):
        (got,) = function(*(np.array([value], dtype) for value in (a, b, c)), *mode)
    if exact:
        assert got == round_fraction(exact, kind, *mode), (a, b, c)
    else:
        assert got == 0


@given(SINGLES, SINGLES, SINGLES)
def test_fma_of_float32(a, b, c):
    for mode in ("rn", "rz", "rm", "rp"):
        check(fma_f32, "f32", a, b, c, mode)


@given(st.integers(2**23, 2**24 - 1), st.integers(2**23, 2**24 - 1), st.integers(-60, 60), st.booleans())
def test_fma_of_float32_next_to_a_border(a, b, shift, negative):
    """The sum falls on or beside the middle between two float32 numbers, where rounding twice goes wrong."""
    product = a * b
    middle = (product >> product.bit_length() - 24) << product.bit_length() - 24
    c = float(np.float32(middle - product if abs(shift) % 2 else (1 << 24) * 2.0**shift))
    check(fma_f32, "f32", float(a), float(b), -c if negative else c)


def test_rounding_twice_would_be_wrong():
    """1 + 2**-24 + 2**-60: the float64 sum is a tie and would go to even."""
    a, b, c = (np.array([value], np.float32) for value in (2.0**-30, 2.0**-30, 1 + 2.0**-23))
    half = np.array([2.0**-24], np.float32)
    twice = ((a.astype(np.float64) * b + 2.0**-24) + 1).astype(np.float32)
    assert twice[0] == 1
    once = fma_f32(np.array([1 + 2.0**-20], np.float32), half, np.array([1], np.float32))
    assert once[0] == 1 + 2.0**-23
    assert fma_f32(a, b, c)[0] == c[0]


@given(DOUBLES, DOUBLES, DOUBLES)
def test_fma_of_float64(a, b, c):
    check(fma_f64, "f64", a, b, c)


@given(st.integers(2**52, 2**53 - 1), st.integers(2**52, 2**53 - 1), st.integers(-53, 53))
def test_fma_of_float64_with_cancellation(a, b, shift):
    product = float(a) * float(b)
    check(fma_f64, "f64", float(a), float(b), -product)
    check(fma_f64, "f64", float(a), float(b), -product * (1 + 2.0**-52) * 2.0**shift)


@given(*[st.floats(width=16, allow_nan=False, allow_infinity=False)] * 3)
def test_fma_of_float16(a, b, c):
    check(fma_f16, "f16", a, b, c)


@given(*[st.integers(0, 2**16 - 1)] * 3)
def test_fma_of_bfloat16(a, b, c):
    values = [decode_bf16(bits) for bits in (a, b, c)]
    if not np.isfinite(values).all():
        return
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    with np.errstate(all="ignore"):
        (got,) = fma_bf16(*(np.array([bits], np.uint16) for bits in (a, b, c)))
    if exact:
        assert got == encode_bf16(round_fraction(exact, "bf16"))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@given(value=DOUBLES)
def test_float64_to_float32_in_every_mode(mode, value):
    with np.errstate(all="ignore"):
        (got,) = round_f32(np.array([value]), mode)
    if value:
        assert got == round_fraction(Fraction(value), "f32", mode)


@given(SINGLES)
def test_tf32(value):
    FORMATS["tf32"] = (11, *FORMATS["f32"][1:])
    bits = np.array([value], np.float32).view(np.uint32)
    assert struct.unpack("<f", (int(bits[0]) & 0xFFFFE000).to_bytes(4, "little"))[0] == truncate_tf32(bits)[0]
    for mode in ("rna", "rn"):
        got = round_tf32(bits.view(np.float32), mode).view(np.float32)[0]
        if value:
            assert got == round_fraction(Fraction(value), "tf32", mode)
