"""Floating-point opcodes compared with exact fractions: `check_float(opcode)` executes one on corner cases."""

import math
from fractions import Fraction
from math import isqrt

import numpy as np

from alphabet_testing.ptx.snippets import DTYPES, FORMATS, THREADS, compute, round_fraction
from alphabet_testing.ptx.values import make_values, to_python

TINY = 2.0**-126


def flush(value):
    return math.copysign(0.0, value) if abs(value) < TINY else value


def finite(*values):
    return all(math.isfinite(value) for value in values)


def rounded(exact, plain, kind, mode="rn"):
    """The exact fraction rounded, or the plain float where the result is zero."""
    return plain if exact == 0 else round_fraction(exact, kind, mode)


def add(kind, mode, a, b):
    if not finite(a, b):
        return a + b
    zero = -0.0 if mode == "rm" and math.copysign(1, a) != math.copysign(1, b) else a + b
    return rounded(Fraction(a) + Fraction(b), zero, kind, mode)


def multiply(kind, mode, a, b):
    if not finite(a, b):
        return a * b
    return rounded(Fraction(a) * Fraction(b), math.copysign(0.0, a) * math.copysign(1, b), kind, mode)


def fma(kind, mode, a, b, c):
    if not finite(a, b, c):
        return a * b + c if finite(a, b) is False or not math.isinf(c) else c
    product = (
        math.copysign(0.0, a) * math.copysign(1, b) if a == 0 or b == 0 else math.copysign(1, a) * math.copysign(1, b)
    )
    zero = (
        -0.0
        if mode == "rm" and math.copysign(1, product) != math.copysign(1, c)
        else math.copysign(0.0, product) + math.copysign(0.0, c)
    )
    return rounded(Fraction(a) * Fraction(b) + Fraction(c), zero, kind, mode)


def divide(kind, a, b):
    if not finite(a, b) or b == 0:
        if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
            return math.nan
        sign = math.copysign(1, a) * math.copysign(1, b)
        return sign * (math.inf if math.isinf(a) or b == 0 else 0.0)
    return rounded(Fraction(a) / Fraction(b), math.copysign(0.0, a) * math.copysign(1, b), kind)


def divide_fast(kind, a, b):
    """a times 1 / b, which is zero beyond 2**126."""
    if finite(b) and abs(b) > 2.0**126:
        return math.copysign(0.0, a) * math.copysign(1, b) if finite(a) else math.nan
    return divide(kind, a, b)


def square_root(kind, a):
    if not finite(a) or a <= 0:
        return a if a == 0 or a == math.inf else math.nan
    exact = Fraction(a)
    scale = 4**1200
    root = isqrt(exact.numerator * scale * exact.denominator)  # floor of sqrt(a) times 2**1200 times the denominator
    sticky = Fraction(0) if root * root == exact.numerator * scale * exact.denominator else Fraction(1, 2)
    return round_fraction((root + sticky) / (Fraction(2) ** 1200 * exact.denominator), kind)


def smaller(a, b):
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b, key=lambda value: (value, math.copysign(1, value)))


def larger(a, b):
    return -smaller(-a, -b)


def extremum(function, parts, a, b):
    if "NaN" in parts and (math.isnan(a) or math.isnan(b)):
        return math.nan
    if "xorsign" in parts:
        return math.copysign(function(abs(a), abs(b)), math.copysign(1, a) * math.copysign(1, b))
    return function(a, b)


FLOATS = {
    "add": lambda parts, mode, a, b: add(parts[-1], mode, a, b),
    "sub": lambda parts, mode, a, b: add(parts[-1], mode, a, -b),
    "mul": lambda parts, mode, a, b: multiply(parts[-1], mode, a, b),
    "fma": lambda parts, mode, a, b, c: fma(parts[-1], mode, a, b, c),
    "div": lambda parts, mode, a, b: (divide_fast if "approx" in parts else divide)(parts[-1], a, b),
    "rcp": lambda parts, mode, a: divide(parts[-1], 1.0, a),
    "sqrt": lambda parts, mode, a: square_root(parts[-1], a),
    "rsqrt": lambda parts, mode, a: divide(parts[-1], 1.0, math.sqrt(a) if a >= 0 else math.nan),
    "ex2": lambda parts, mode, a: 2.0 ** min(a, 1000) if a == a else a,
    "lg2": lambda parts, mode, a: -math.inf if a == 0 else math.log2(a) if a > 0 else math.nan,
    "sin": lambda parts, mode, a: math.sin(a) if math.isfinite(a) else math.nan,
    "cos": lambda parts, mode, a: math.cos(a) if math.isfinite(a) else math.nan,
    "tanh": lambda parts, mode, a: math.tanh(a),
    "min": lambda parts, mode, a, b: extremum(smaller, parts, a, b),
    "max": lambda parts, mode, a, b: extremum(larger, parts, a, b),
    "neg": lambda parts, mode, a: -a,
    "abs": lambda parts, mode, a: abs(a),
    "copysign": lambda parts, mode, a, b: math.copysign(b, a),
}  # fmt: skip
LAST_PLACES = {"rsqrt": 1, "ex2": 1, "lg2": 1, "sin": 1, "cos": 1, "tanh": 1}


def agree(got, want, kind, places):
    """Whether two numbers are equal to the bit, both NaN, or apart by at most so many last places."""
    if math.isnan(want):
        return math.isnan(got)
    if got == want:
        return math.copysign(1, got) == math.copysign(1, want)
    if not places or not math.isfinite(want):
        return False
    precision, lowest, _ = FORMATS[kind]
    exponent = max(math.frexp(want)[1] - 1, lowest) if want else lowest
    return abs(got - want) <= places * 2.0 ** (exponent - precision + 1)


def check_gross(opcode):
    """Check `.approx.ftz.f64`, which reads the upper words of numbers and writes the upper words of results."""
    values = make_values("f64", 0)
    (got,) = compute(opcode, ["f64"], ["f64"], [values])
    assert not (got.view("u8") & 0xFFFFFFFF)[~np.isnan(got)].any()
    for value, found in zip(values.tolist(), got.tolist(), strict=True):
        want = FLOATS[opcode.split(".")[0]](
            ["f64"], "rn", math.copysign(0.0, value) if abs(value) < 2.0**-1022 else value
        )
        if math.isnan(want):
            assert math.isnan(found)
        elif math.isinf(want) or abs(want) < 2.0**-1022:
            limit = want if math.isinf(want) else math.copysign(0.0, want)
            assert (found, math.copysign(1, found)) == (limit, math.copysign(1, limit))
        else:
            assert abs(found - want) <= 2.0**-18 * abs(want)


def check_float(opcode):
    """Execute an opcode and require, in every thread, what exact arithmetic says."""
    if opcode.endswith(".approx.ftz.f64"):
        check_gross(opcode)
        return
    parts = opcode.split(".")
    kind = parts[-1].removesuffix("x2")
    packed = parts[-1].endswith("x2")
    oracle = FLOATS[parts[0]]
    parts[-1] = kind
    mode = next((part for part in parts if part in ("rn", "rz", "rm", "rp")), "rn")
    count = oracle.__code__.co_argcount - 2
    inputs = [make_values(kind, seed) for seed in range(count)]
    given, element = inputs, np.dtype(DTYPES[kind])
    if packed:  # the upper halves hold the same numbers in another order
        given = [np.stack([values, values[::-1]], axis=1).copy().view("u4")[:, 0] for values in inputs]
    (got,) = compute(opcode, [opcode.split(".")[-1]] * count, [opcode.split(".")[-1]], given)
    if packed:
        halves = got.view(element).reshape(THREADS, 2)
        assert (halves[::-1, 1].view("u2") == halves[:, 0].view("u2")).all()
        got = halves[:, 0]
    for thread in range(THREADS):
        operands = [to_python(values[thread], kind) for values in inputs]
        result = to_python(got[thread], kind)
        flushed = list(map(flush, operands)) if "ftz" in parts else operands
        want = oracle(parts, mode, *flushed)
        if kind == "f32" and (parts[0] in LAST_PLACES or "full" in parts or "approx" in parts):
            with np.errstate(over="ignore"):
                want = float(np.float32(want))
        want = flush(want) if "ftz" in parts else want
        assert agree(result, want, kind, LAST_PLACES.get(parts[0], 0)), (opcode, operands, result, want)
