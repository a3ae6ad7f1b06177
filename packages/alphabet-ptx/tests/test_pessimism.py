"""Launches with rounding='worst': errors as large as they may be and no larger, the same for the same seed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_ptx.approximations import BOUNDS
from alphabet_ptx.tensorcores import add_products
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import make_kernel, round_fraction, run

COUNT = 512


def ulp(value):
    """The distance of float32 numbers around a float64."""
    return np.array([2.0 ** (math.frexp(number)[1] - 24) for number in value])


def values(low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, COUNT).astype(np.float32)


def apply(opcode, *operands, **options):
    """The results of an instruction of one or two float32 operands, one per thread."""
    out = np.zeros(len(operands[0]), np.float32)
    body = [f"mad.wide.u32 %d{i + 10}, %r0, 4, %d{i};" for i in range(len(operands) + 1)]
    body += [f"ld.global.b32 %r{i + 1}, [%d{i + 10}];" for i in range(len(operands))]
    body.append(f"{opcode} %r9, {', '.join(f'%r{i + 1}' for i in range(len(operands)))};")
    body.append(f"st.global.b32 [%d{len(operands) + 10}], %r9;")
    run("\n".join(body), *operands, out, threads=len(out), **options)
    return out


# Operands, the function in float64, and the manual's bound, written down a second time.
CASES = {
    "div.approx.f32": ((values(-9, 9), values(1, 40, 1)), np.divide, lambda x, y: 2 * ulp(y)),
    "div.full.ftz.f32": ((values(-9, 9), values(1, 40, 1)), np.divide, lambda x, y: 2 * ulp(y)),
    "rcp.approx.f32": ((values(0.1, 9),), np.reciprocal, lambda x, y: ulp(y)),
    "ex2.approx.ftz.f32": ((values(-30, 30),), np.exp2, lambda x, y: 2 * ulp(y) + abs(np.float32(y) - y)),
    "sqrt.approx.f32": ((values(0.01, 99),), np.sqrt, lambda x, y: y * 2.0**-23),
    "rsqrt.approx.f32": ((values(0.01, 99),), lambda x: 1 / np.sqrt(x), lambda x, y: y * 2.0**-22.9),
    "tanh.approx.f32": ((values(-3, 3),), np.tanh, lambda x, y: abs(y) * 2.0**-11),
    "sin.approx.f32": ((values(-6, 6),), np.sin, lambda x, y: np.full(COUNT, 2.0**-20.5)),
    "cos.approx.f32": ((values(-300, 300),), np.cos, lambda x, y: np.where(abs(x) < 2 * np.pi, 2**-20.5, 2**-14.7)),
    "lg2.approx.f32": (
        (values(0.1, 5),),
        np.log2,
        lambda x, y: np.where((x > 0.5) & (x < 2), 2.0**-22, abs(y) * 2.0**-22),
    ),
}


def test_every_bound_has_a_case():
    assert {".".join(opcode.split(".")[:2]) for opcode in CASES} == set(BOUNDS)


@pytest.mark.parametrize("opcode", CASES)
def test_errors_reach_the_bound_and_stay_within(opcode):
    operands, function, bound = CASES[opcode]
    exact = function(*(operand.astype(np.float64) for operand in operands))
    allowed = bound(operands[0].astype(np.float64), exact)
    worst = apply(opcode, *operands, rounding="worst", seed=3)
    error = worst.astype(np.float64) - exact
    assert (np.abs(error) <= allowed).all()
    # A bound of one ulp reaches one number on each side, at any distance up to it: half of them in the outer half.
    assert (np.abs(error) >= allowed / 2).mean() > 0.3
    assert 0.3 < (error > 0).mean() < 0.7  # in both directions
    ideal = apply(opcode, *operands)
    assert (ideal == exact.astype(np.float32)).all()
    assert (apply(opcode, *operands, rounding="ideal", seed=3) == ideal).all()


def test_the_error_of_ex2_counts_from_the_rounded_result():
    x = values(-30, 30)
    error = np.abs(apply("ex2.approx.f32", x, rounding="worst").astype(np.float64) - np.exp2(x.astype(np.float64)))
    assert (error > 2.2 * ulp(np.exp2(x.astype(np.float64)))).any()


def test_errors_are_a_function_of_seed_and_operands():
    x = values(-5, 5)
    first, again, other = (apply("ex2.approx.f32", x, rounding="worst", seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert 0.3 < (first == other).mean() < 0.7
    repeated = apply("ex2.approx.f32", np.repeat(x[:8], 64), rounding="worst", seed=1)
    assert (repeated == np.repeat(first[:8], 64)).all()


def test_what_the_manual_fixes_stays_exact():
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    assert apply("ex2.approx.f32", special[:4], rounding="worst").tolist() == [1, 1, np.inf, 0]
    assert apply("cos.approx.f32", special[:2], rounding="worst").tolist() == [1, 1]
    assert apply("rcp.approx.ftz.f32", special[[0, 2, 5]], rounding="worst").tolist() == [np.inf, 0, np.inf]
    assert np.isnan(apply("sqrt.approx.f32", special[3:5], rounding="worst")).all()
    largest = np.array([np.finfo(np.float32).max], np.float32)
    assert np.isfinite(apply("div.full.f32", largest, np.ones(1, np.float32), rounding="worst")).all()


@pytest.mark.parametrize("rounding", ["ideal", "worst"])
def test_a_fast_quotient_by_a_huge_divisor_is_zero(rounding):
    a = np.array([1.0, -1e38, 3e38, np.inf, 1.0, 1.0], np.float32)
    b = np.array([1e38, 1e38, -2e38, 1e38, np.inf, 2.0**126], np.float32)
    found = apply("div.approx.f32", a, b, rounding=rounding)
    assert np.signbit(found[:3]).tolist() == [False, True, True]
    assert (found[:3] == 0).all()
    assert np.isnan(found[3])
    assert found[4:].tolist() == pytest.approx([0, 2.0**-126])
    assert (apply("div.full.f32", a[:2], b[:2], rounding=rounding) != 0).all()


@pytest.mark.parametrize(("option", "value"), [("rounding", "bad"), ("seed", -1), ("seed", 0.5)])
def test_an_unknown_mode_is_refused(option, value):
    with pytest.raises(PtxError, match=f"{option} must be"):
        run("", **{option: value})


# Tensor cores


def cut(value, quantum):
    """A fraction without what lies below `quantum`, towards zero."""
    steps = abs(value) // quantum
    return steps * quantum if value > 0 else -steps * quantum


def add_by_definition(row, column, start, length, bits, fp8=False):
    """One element of a product in fractions: block after block aligned, cut, added, and cut to float32."""
    total = Fraction(start)
    for first in range(0, len(row), length):
        pairs = zip(row[first : first + length], column[first : first + length], strict=True)
        terms = [total, *(Fraction(x) * Fraction(y) for x, y in pairs)]
        exponents = [math.frexp(float(term))[1] - 1 for term in terms if term]
        if not exponents:
            continue
        total = sum(cut(term, Fraction(2) ** (max(exponents) - bits)) for term in terms)
        if total and fp8:
            total = cut(total, Fraction(2) ** (math.frexp(float(total))[1] - 1 - 13))
        elif total:
            total = Fraction(round_fraction(total, "f32", "rz"))
    return float(total)


@pytest.mark.parametrize(
    ("kind", "target", "length", "bits"),
    [
        ("f16", 80, 8, 24),
        ("bf16", 89, 8, 24),
        ("tf32", 86, 4, 24),
        ("f16", 90, 16, 25),
        ("tf32", 90, 8, 25),
        ("e4m3", 89, 16, 13),
        ("e5m2", 90, 32, 13),
    ],
)
def test_sums_are_cut_as_defined(kind, target, length, bits):
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(shape) for shape in ((2, 3, 32), (2, 32, 4), (2, 3, 4)))
    a, b = ((part * 2.0 ** rng.integers(-6, 6, part.shape)).astype(np.float16).astype(np.float64) for part in (a, b))
    if bits == 13:
        a, b = (np.ldexp(np.round(np.ldexp(np.frexp(part)[0], 4)), np.frexp(part)[1] - 4) for part in (a, b))
    c = c.astype(np.float32).astype(np.float64)
    a[0, 0] = 0
    found = add_products(a, b, c, kind=kind, result="f32", target=target)
    for i in np.ndindex(found.shape):
        row, column = a[i[0], i[1]], b[i[0], :, i[2]]
        assert found[i] == add_by_definition(row, column, c[i], length, bits, fp8=bits == 13)


def test_infinities_and_nan_pass_through_sums():
    a, b, c = np.ones((1, 16)), np.ones((16, 1)), np.zeros((1, 1))
    for value, expected in ((np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (1e38, np.inf)):
        a[0, 3] = a[0, 4] = a[0, 5] = a[0, 6] = value
        with np.errstate(all="ignore"):  # as in a launch
            found = add_products(a, b, c, kind="tf32", result="f32", target=80)
        np.testing.assert_array_equal(found, [[expected]])


@pytest.mark.parametrize(("arch", "added"), [("sm_80", 0), ("sm_90a", 8)])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("side", [1, -1])
def test_the_instruction_cuts_towards_zero(arch, added, sign, side):
    """2**24 plus sixteen products of a half: 24 bits behind the point keep none of them, 25 all."""
    registers = "{%r20, %r20, %r20, %r20}, {%r21, %r21}, {%r22, %r22, %r22, %r22}"
    half = np.array([0.5 * side] * 2, np.float16).view(np.uint32)[0]
    one = np.array([1.0] * 2, np.float16).view(np.uint32)[0]
    start = np.array([sign * 2.0**24], np.float32).view(np.uint32)[0]
    body = (
        f"mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\nmov.b32 %r20, {half};\nmov.b32 %r21, {one};\n"
        f"mov.b32 %r22, {start};\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%r23, %r24, %r25, %r26}}, "
        f"{registers};\nmad.wide.u32 %d1, %r0, 4, %d0;\nst.global.b32 [%d1], %r24;"
    )
    text = make_kernel(body, ["u64"]).replace("sm_80", arch)
    for rounding, expected in (("ideal", 8), ("worst", added)):
        out = np.zeros(64, np.float32)
        execute(text, 1, [out], rounding=rounding)
        assert (out == sign * 2.0**24 + side * expected).all()


def test_a_product_of_a_compiled_kernel_is_off_by_what_its_blocks_allow():
    signature = {**pointers("a b c"), "K": "i32"}
    constants = {"M": 32, "N": 32, "BK": 32, "PRECISION": "tf32"}
    compiled = compile_once(kernels.dot_kernel, signature, constants, stages=3, divisible=("K",))
    a, b = np.abs(normal(32, 96)), np.abs(normal(96, 32, seed=1))
    results = {}
    for rounding in ("ideal", "worst"):
        results[rounding] = blank(32, 32)
        execute(compiled, 1, [a, b, results[rounding], 96], rounding=rounding)
    seen = [(part.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for part in (a, b)]
    exact = seen[0] @ seen[1]
    # 24 blocks of four products; each of the five terms loses less than 2**-24 of the sum, and the result 2**-23.
    error = exact - results["worst"]
    assert (error >= 0).all()  # positive numbers: what is cut off makes them smaller
    assert (error <= 24 * (5 * 2.0**-24 + 2.0**-23) * exact).all()
    assert error.mean() > 4 * np.abs(exact - results["ideal"]).mean()


def test_replicas_and_orders_agree_in_a_pessimistic_launch():
    """Equal operands give equal results, so that Triton's replicated stores are no races."""
    x = np.repeat(values(-2, 2)[:32], 2)
    body = "shr.u32 %r1, %r0, 1;\nmul.wide.u32 %d3, %r1, 4;\nadd.s64 %d4, %d1, %d3;\nmad.wide.u32 %d2, %r0, 4, %d0;\n"
    body += "ld.global.b32 %r2, [%d2];\ntanh.approx.f32 %r3, %r2;\nst.global.b32 [%d4], %r3;"
    outs = []
    for order in ("ascending", "descending", 4):
        outs.append(np.zeros(32, np.float32))
        assert run(body, x, outs[-1], rounding="worst", order=order).races == []
    assert (outs[0] == outs[1]).all()
    assert (outs[0] == outs[2]).all()
