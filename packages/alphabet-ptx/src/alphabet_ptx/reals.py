"""Floating-point instructions.

Those that PTX defines by IEEE rounding (`.rn`, `.rz`, ...) are exact to the bit, except that a NaN is any NaN. Those
that PTX calls approximate (`.approx`, `.full`) are computed in float64 and rounded once: a GPU may be off by the few
last places that the PTX manual allows, so compare such results with a tolerance; see `approximations`.
"""

from collections.abc import Callable

import numpy as np

from alphabet_ptx.approximations import approximate
from alphabet_ptx.datatypes import Array
from alphabet_ptx.elementwise import Operation, elementwise, parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Instruction
from alphabet_ptx.rounding import (
    add_directed,
    decode_bf16,
    encode_bf16,
    flush,
    fma_bf16,
    fma_f16,
    fma_f32,
    fma_f64,
    round_f32,
)

_MODES = {"rn", "rz", "rm", "rp"}
Function = Callable[..., Array]


def _real(compute: Function, sources: int = 2) -> Binder:
    """An operation on values of the last type; bfloat16 takes part as float32, which is wide enough to round twice."""

    def build(instruction: Instruction) -> Operation:
        modifiers = parts(instruction)
        kind = modifiers[-1]
        function = compute
        if kind.startswith("bf16"):
            function = _on_bf16(function)
        if "ftz" in modifiers:
            function = _flushed(function)
        return Operation(function, (kind,), (kind,) * sources)

    return elementwise(build)


def _on_bf16(compute: Function) -> Function:
    return lambda *values: encode_bf16(compute(*map(decode_bf16, values)))


def _flushed(compute: Function) -> Function:
    return lambda *values: flush(compute(*map(flush, values)))


def _rounded(exact: Function, plain: Function, sources: int = 2) -> Binder:
    """Arithmetic of float32 in the opcode's rounding mode: `plain` to the nearest, `exact` in float64 otherwise."""

    def build(instruction: Instruction) -> Operation:
        modifiers = parts(instruction)
        mode = next((part for part in modifiers if part in _MODES), "rn")

        def directed(*values: Array) -> Array:
            return round_f32(exact(*(value.astype(np.float64) for value in values), mode), mode)

        function = plain if mode == "rn" else directed
        return Operation(_flushed(function) if "ftz" in modifiers else function, ("f32",), ("f32",) * sources)

    return elementwise(build)


def _approximate(compute: Function, sources: int = 1) -> Binder:
    """An approximate function: rounded once, or in a pessimistic launch as far off as the manual allows."""

    def bind_instruction(instruction: Instruction, block: Block) -> Step:
        name = ".".join(parts(instruction)[:2])

        def function(*values: Array) -> Array:
            exact = compute(*(value.astype(np.float64) for value in values))
            if block.mode.pessimistic:
                return approximate(name, exact, values, block.mode.seed)
            return np.asarray(exact.astype(np.float32))

        return _real(function, sources)(instruction, block)

    return bind_instruction


def _gross(compute: Function) -> Binder:
    """`.approx.ftz.f64`: reads the upper words of numbers and writes those of results; subnormal numbers are zeros."""

    def upper(value: Array) -> Array:
        tiny = np.abs(value) < np.finfo(np.float64).tiny
        word = (value.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
        return np.where(tiny, np.copysign(0.0, value), np.where(np.isnan(value), np.nan, word))

    return elementwise(lambda _: Operation(lambda value: upper(compute(upper(value))), ("f64",), ("f64",)))


def _divide_fast(a: Array, b: Array) -> Array:
    """The quotient as a times 1 / b, which is zero for divisors beyond 2**126 (PTX ISA, 9.7.3.8)."""
    return np.where((np.abs(b) > 2.0**126) & np.isfinite(b), a * np.copysign(0.0, b), a / b)


def _reciprocal_root(value: Array) -> Array:
    return np.asarray(1 / np.sqrt(value))


def _smaller(a: Array, b: Array) -> Array:
    """The minimum of two numbers: a number wins over NaN, and -0 is less than +0."""
    return np.where((a == b) & np.signbit(a), a, np.where((a == b) & np.signbit(b), b, np.fmin(a, b)))


def _larger(a: Array, b: Array) -> Array:
    return -_smaller(-a, -b)


def _extremum(compute: Function) -> Binder:
    """`min` and `max` of two or three: `.NaN` lets NaN win, `.xorsign.abs` compares magnitudes and joins signs."""

    def build(instruction: Instruction) -> Operation:
        modifiers = parts(instruction)
        kind, count = modifiers[-1], len(instruction.operands) - 1
        if count not in (2, 2 if "xorsign" in modifiers else 3):
            raise PtxError(f"{instruction.opcode} of {count} operands is not covered")

        def function(*values: Array) -> Array:
            result = values[0]
            for value in values[1:]:
                result = pair(result, value)
            return result

        def pair(a: Array, b: Array) -> Array:
            if "xorsign" in modifiers:
                negative = np.signbit(a) ^ np.signbit(b)
                result = np.abs(compute(np.abs(a), np.abs(b)))
                result = np.where(negative, -result, result)
            else:
                result = compute(a, b)
            return np.where(np.isnan(a) | np.isnan(b), a + b, result) if "NaN" in modifiers else result

        chosen: Function = _on_bf16(function) if kind.startswith("bf16") else function
        return Operation(_flushed(chosen) if "ftz" in modifiers else chosen, (kind,), (kind,) * count)

    return elementwise(build)


def _fused(instruction: Instruction) -> Operation:
    modifiers = parts(instruction)
    kind = modifiers[-1]
    if kind == "f32":
        mode = modifiers[1]

        def function(a: Array, b: Array, c: Array) -> Array:
            return fma_f32(a, b, c, mode)
    else:
        function = {"f16": fma_f16, "bf16": fma_bf16, "f64": fma_f64}[kind.removesuffix("x2")]
    return Operation(_flushed(function) if "ftz" in modifiers else function, (kind,), (kind,) * 3)


def _copysign(sign: Array, magnitude: Array) -> Array:
    """copysign: the first operand gives the sign, the second the magnitude."""
    return np.copysign(magnitude, sign)


def _test(instruction: Instruction) -> Operation:
    _, what, kind = parts(instruction)

    def compute(a: Array) -> Array:
        normal = np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny)
        tests = {
            "finite": np.isfinite(a),
            "infinite": np.isinf(a),
            "number": ~np.isnan(a),
            "notanumber": np.isnan(a),
            "normal": normal,
            "subnormal": np.isfinite(a) & ~normal & (a != 0),
        }
        return np.asarray(tests[what])

    return Operation(compute, ("pred",), (kind,))


_ANY_ROUNDING = "[.{rn,rz,rm,rp}]"
_HALVES = "{f16,f16x2,bf16,bf16x2}"

TABLE: dict[str, Binder] = {
    f"add{_ANY_ROUNDING}[.ftz].f32": _rounded(add_directed, np.add),
    f"sub{_ANY_ROUNDING}[.ftz].f32": _rounded(lambda a, b, mode: add_directed(a, -b, mode), np.subtract),
    f"mul{_ANY_ROUNDING}[.ftz].f32": _rounded(lambda a, b, _: a * b, np.multiply),
    "fma.{rn,rz,rm,rp}[.ftz].f32": elementwise(_fused),
    "fma.rn.f64": elementwise(_fused),
    f"fma.rn.{_HALVES}": elementwise(_fused),
    f"add[.rn].{{f64,{_HALVES}}}": _real(np.add),
    f"sub[.rn].{{f64,{_HALVES}}}": _real(np.subtract),
    f"mul[.rn].{{f64,{_HALVES}}}": _real(np.multiply),
    "div.rn[.ftz].f32": _real(np.divide),
    "div.rn.f64": _real(np.divide),
    "div.full[.ftz].f32": _approximate(np.divide, 2),
    "div.approx[.ftz].f32": _approximate(_divide_fast, 2),
    "rcp.rn[.ftz].f32": _real(np.reciprocal, 1),
    "rcp.rn.f64": _real(np.reciprocal, 1),
    "rcp.approx[.ftz].f32": _approximate(np.reciprocal),
    "rcp.approx.ftz.f64": _gross(np.reciprocal),
    "sqrt.rn[.ftz].f32": _real(np.sqrt, 1),
    "sqrt.rn.f64": _real(np.sqrt, 1),
    "sqrt.approx[.ftz].f32": _approximate(np.sqrt),
    "rsqrt.approx[.ftz].f32": _approximate(_reciprocal_root),
    "rsqrt.approx.f64": _real(_reciprocal_root, 1),
    "rsqrt.approx.ftz.f64": _gross(_reciprocal_root),
    "ex2.approx[.ftz].f32": _approximate(np.exp2),
    "lg2.approx[.ftz].f32": _approximate(np.log2),
    "sin.approx[.ftz].f32": _approximate(np.sin),
    "cos.approx[.ftz].f32": _approximate(np.cos),
    "tanh.approx.f32": _approximate(np.tanh),
    "min[.ftz][.NaN][.xorsign.abs].f32": _extremum(_smaller),
    "max[.ftz][.NaN][.xorsign.abs].f32": _extremum(_larger),
    f"min[.NaN].{_HALVES}": _extremum(_smaller),
    f"max[.NaN].{_HALVES}": _extremum(_larger),
    "min.f64": _extremum(_smaller),
    "max.f64": _extremum(_larger),
    "neg[.ftz].f32": _real(np.negative, 1),
    f"neg.{{f64,{_HALVES}}}": _real(np.negative, 1),
    "abs[.ftz].f32": _real(np.abs, 1),
    f"abs.{{f64,{_HALVES}}}": _real(np.abs, 1),
    "copysign.{f32,f64}": _real(_copysign),
    "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}": elementwise(_test),
}
