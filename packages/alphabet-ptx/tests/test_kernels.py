"""Kernels compiled by Triton, executed, and compared with float64."""

import math

import numpy as np
import pytest
from alphabet_ptx import execute
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from hypothesis import given, settings
from hypothesis import strategies as st

ARCHITECTURES = ["sm_80", "sm_89", "sm_90"]


def launch(compiled, grid, arguments):
    """Execute and require silence."""
    report = execute(compiled, grid, arguments)
    assert report.races == []
    return report


def scan_in_complex(ar, ai, br, bi, axis, reverse):
    a, b = (np.moveaxis(re.astype(complex) + 1j * im, axis, 0) for re, im in ((ar, ai), (br, bi)))
    states, state = np.zeros_like(b), 0
    for t in reversed(range(len(b))) if reverse else range(len(b)):
        state = states[t] = a[t] * state + b[t]
    return np.moveaxis(states, 0, axis)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kernel", "axis", "shape"),
    [(kernels.scan_rows_kernel, 2, (2, 4, 128)), (kernels.scan_columns_kernel, 1, (2, 32, 8))],
    ids=["rows", "columns"],
)
def test_associative_scan(kernel, axis, shape, reverse, arch):
    constants = {"T": shape[axis], "M": shape[3 - axis], "REVERSE": reverse}
    compiled = compile_once(kernel, pointers("ar ai br bi hr hi"), constants, arch=arch)
    inputs = [normal(*shape, seed=seed, scale=0.6) for seed in range(4)]
    real, imaginary = blank(*shape), blank(*shape)
    launch(compiled, shape[0], [*inputs, real, imaginary])
    expected = scan_in_complex(*inputs, axis, reverse)
    # A state is a sum of at most T terms, none of which has more than 2 T roundings; states stay below 10 here.
    assert np.abs(real + 1j * imaginary - expected).max() < 10 * 2 * shape[axis] * 2.0**-24


@settings(max_examples=12)
@given(length=st.integers(1, 200))
def test_scan_with_a_carry_at_any_length(length):
    compiled = compile_once(
        kernels.carried_scan_kernel, {**pointers("decay x y"), "T": "i32"}, {"M": 8, "BT": 64}, warps=4
    )
    decay, x, y = np.linspace(0.1, 0.99, 8, dtype=np.float32), normal(8, length), blank(8, length)
    launch(compiled, 1, {"decay": decay, "x": x, "y": y, "T": length})
    decays = np.broadcast_to(decay[:, None], x.shape)
    expected, size = (scan_in_complex(decays, 0 * x, part, 0 * x, 1, False).real for part in (x, np.abs(x)))
    # A term decay**k x has met at most k products and as many sums, and a few more in the carries of the blocks.
    assert (np.abs(y - expected) <= (2 * length + 8) * 2.0**-24 * size).all()


@settings(max_examples=12)
@given(length=st.integers(1, 700))
def test_elementwise_with_a_mask_at_any_length(length):
    compiled = compile_once(kernels.add_kernel, {**pointers("x y out"), "n": "i32"}, {"BLOCK": 256})
    x, y, out = normal(length), normal(length, seed=1), blank(length)
    launch(compiled, math.ceil(length / 256), [x, y, out, length])
    assert (out == x + y).all()


def test_transcendental_functions():
    compiled = compile_once(kernels.functions_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 256})
    x = np.concatenate([normal(200, scale=3), np.float32([0, -0.0, 1e-3, 1e5, -1e6, 3e4])])
    out, v = blank(13, len(x)), x.astype(np.float64)
    launch(compiled, 1, [x, out, len(x)])
    with np.errstate(over="ignore"):
        expected = [
            np.exp(v), np.log(np.abs(v) + 0.5), np.sqrt(np.abs(v)), 1 / np.sqrt(np.abs(v) + 0.25), np.sin(v), np.cos(v),
            1 / (1 + np.exp(-v)), 1 / (v * v + 1), np.exp2(v) - np.log2(np.abs(v) + 1), np.floor(v) + 2 * np.ceil(v),
            np.array([math.erf(value) for value in v]), v / (v * v + 3) + np.sqrt(np.abs(v)),
            np.clip(v, -1, 1) + v * v + 0.5,
        ]  # fmt: skip
    for row, want in zip(out, expected, strict=True):
        # The argument of a function has been rounded, which exp turns into |x| roundings of the result.
        inside = np.abs(want) < np.finfo(np.float32).max
        assert np.allclose(row[inside], want[inside], rtol=1e-5, atol=1e-6)
        assert np.isposinf(row[~inside]).all()


def test_sine_and_cosine_of_large_numbers():
    compiled = compile_once(kernels.functions_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 256})
    x = np.logspace(5, 38, 256, dtype=np.float32)
    out = blank(13, 256)
    launch(compiled, 1, [x, out, 256])
    for row, function in ((4, np.sin), (5, np.cos)):
        assert np.allclose(out[row], function(x.astype(np.float64)), rtol=0, atol=1e-6)


def test_libdevice_functions():
    compiled = compile_once(kernels.libdevice_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 256})
    x = normal(256, scale=2)
    out, v = blank(6, 256), x.astype(np.float64)
    launch(compiled, 1, [x, out, 256])
    expected = [
        np.tanh(v), np.expm1(v), np.log1p(np.abs(v)), (np.abs(v) + np.float32(0.1)) ** 1.5, np.rint(v),
        np.arctan2(v, 0.7),
    ]  # fmt: skip
    for row, want in zip(out, expected, strict=True):
        assert np.allclose(row, want, rtol=16 * 2.0**-23, atol=1e-7)  # libdevice promises a few last places


def test_float64_arithmetic():
    compiled = compile_once(kernels.double_kernel, {**pointers("x out"), "n": "i32"}, {"BLOCK": 256})
    x, out = normal(200), blank(200)
    launch(compiled, 1, [x, out, 200])
    v = x.astype(np.float64)
    total = (v * v).sum()
    expected = v * np.float32(0.1) + v * v / (total + 1) - np.sqrt(total) + np.exp(-v * v)
    assert np.allclose(out, expected.astype(np.float32), rtol=2.0**-23)


@pytest.mark.parametrize("columns", [1, 31, 200, 256])
def test_softmax(columns):
    compiled = compile_once(kernels.softmax_rows_kernel, {**pointers("x out"), "columns": "i32"}, {"BLOCK": 256})
    x, out = normal(3, columns, scale=4), blank(3, columns)
    launch(compiled, 3, [x, out, columns])
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    # exp(-x) for x rounded to float32 is off by x exp(-x) 2**-24 at most; sum and quotient add a few roundings.
    assert np.abs(out - e / e.sum(axis=1, keepdims=True)).max() < 16 * 2.0**-24


@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(axis):
    compiled = compile_once(
        kernels.reduce_kernel, {**pointers("x sums maxima"), "where": "*i32"}, {"ROWS": 32, "COLUMNS": 64, "AXIS": axis}
    )
    x, size = normal(32, 64), 64 if axis == 0 else 32
    sums, maxima, where = blank(size), blank(size), np.full(size, -1, np.int32)
    launch(compiled, 1, [x, sums, maxima, where])
    assert np.abs(sums - x.astype(np.float64).sum(axis=axis)).max() < 64 * 64 * 2.0**-24
    assert (maxima == x.max(axis=axis) + x.min(axis=axis)).all()
    assert (where == x.argmax(axis=axis)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_sums_and_products(axis):
    compiled = compile_once(
        kernels.cumsum_kernel, pointers("x out products"), {"ROWS": 32, "COLUMNS": 64, "AXIS": axis}
    )
    x = 1 + normal(32, 64, scale=0.1)
    sums, products = blank(32, 64), blank(32, 64)
    launch(compiled, 1, [x, sums, products])
    assert np.allclose(sums, x.astype(np.float64).cumsum(axis=axis), rtol=64 * 2.0**-23)
    assert np.allclose(products, x.astype(np.float64).cumprod(axis=axis), rtol=64 * 2.0**-23)


# Of the sum of |a b|: tf32 keeps 11 bits of each factor; tf32x3 leaves out only the product of the two small parts.
DOT_ERRORS = {"tf32": 2 * 2.0**-10, "tf32x3": 2.0**-20, "ieee": 2.0**-19}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("precision", DOT_ERRORS)
def test_dot_products(precision, stages):
    arch = {"tf32": "sm_89", "tf32x3": "sm_80", "ieee": "sm_90"}[precision]
    compiled = compile_once(
        kernels.dot_kernel, {**pointers("a b c"), "K": "i32"}, {"M": 32, "N": 32, "BK": 32, "PRECISION": precision},
        arch=arch, stages=stages, divisible=("K",),
    )  # fmt: skip
    a, b, c = normal(32, 96), normal(96, 32, seed=1), blank(32, 32)
    report = launch(compiled, 1, [a, b, c, 96])
    exact, size = a.astype(np.float64) @ b, np.abs(a.astype(np.float64)) @ np.abs(b)
    error = (np.abs(c - exact) / size).max()
    assert error < DOT_ERRORS[precision]
    assert (error > DOT_ERRORS["tf32x3"]) == (precision == "tf32")  # the low precision is visible
    assert bool(report.instructions["cp.async.commit_group"]) == (stages > 1)
    assert any(name.startswith("mma") for name in report.instructions) == (precision != "ieee")


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("warps", [1, 4])
def test_dot_products_of_half_precision(kind, warps):
    compiled = compile_once(
        kernels.half_dot_kernel, {**pointers("a b", f"*{kind}"), "c": "*fp32"}, {"M": 32, "N": 32, "K": 32}, warps=warps
    )
    a, b, c = normal(32, 32), normal(32, 32, seed=1), blank(32, 32)
    if kind == "fp16":
        halves = [a.astype(np.float16), b.astype(np.float16)]
        exact = halves[0].astype(np.float64) @ halves[1]
    else:
        halves = [(part.view(np.uint32) >> 16).astype(np.uint16) for part in (a, b)]
        exact = np.matmul(*((part.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for part in halves))
    launch(compiled, 1, [*halves, c])
    assert np.abs(c - exact).max() < 64 * 2.0**-24


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_dot_products_of_float64(arch):
    compiled = compile_once(kernels.double_dot_kernel, pointers("a b c", "*fp64"), {"N": 16}, arch=arch)
    a, b, c = (normal(16, 16, seed=seed).astype(np.float64) for seed in range(3))
    launch(compiled, 1, [a, b, c])
    assert np.abs(c - a @ b).max() < 1e-14


def test_transposition():
    compiled = compile_once(kernels.transpose_kernel, pointers("x out"), {"ROWS": 32, "COLUMNS": 64})
    x, out = normal(32, 64), blank(64, 32)
    launch(compiled, 1, [x, out])
    assert (out == 2 * x.T).all()


def test_gather():
    compiled = compile_once(
        kernels.gather_kernel, {"x": "*fp32", "index": "*i32", "out": "*fp32"}, {"ROWS": 8, "COLUMNS": 64}
    )
    x, out = normal(8, 64), blank(8, 64)
    index = np.random.default_rng(0).integers(0, 64, (8, 64), dtype=np.int32)
    launch(compiled, 1, [x, index, out])
    assert (out == np.take_along_axis(x, index, axis=1)).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_atomics(arch):
    signature = {**pointers("x bins"), **pointers("totals old", "*i32"), "n": "i32"}
    compiled = compile_once(kernels.histogram_kernel, signature, {"BLOCK": 256}, arch=arch)
    x, bins = normal(600), np.zeros(8, np.float32)
    totals, old = np.array([0, 99, 0, 0, 0], np.int32), np.full(3, -1, np.int32)
    launch(compiled, 3, [x, bins, totals, old, 600])
    place = (np.abs(x) * 4).astype(int) % 8
    expected = np.array([x[place == i].astype(np.float64).sum() for i in range(8)])
    assert np.abs(bins - expected).max() < 600 * 4 * 2.0**-24
    assert totals.tolist() == [place.max(), place.min(), 3, 7, 2]
    assert old.tolist() == [0, 1, 2]


def test_masks_of_bytes():
    signature = {"x": "*fp32", "mask": "*i1", "observed": "*u8", "out": "*fp32", "n": "i32"}
    compiled = compile_once(kernels.masked_bytes_kernel, signature, {"BLOCK": 256})
    rng = np.random.default_rng(0)
    x, mask, observed, out = normal(300), rng.random(300) > 0.5, rng.integers(0, 3, 300).astype(np.uint8), blank(300)
    launch(compiled, 2, {"x": x, "mask": mask, "observed": observed, "out": out, "n": 300})
    assert (out == np.where(mask & (observed > 0), x, 0)).all()


def test_integers():
    compiled = compile_once(kernels.integers_kernel, {**pointers("x y out", "*i32"), "n": "i32"}, {"BLOCK": 256})
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**20), 2**20, 256, dtype=np.int32) for _ in range(2))
    b[b == 0] = 1
    out = np.zeros((9, 256), np.int32)
    launch(compiled, 1, [a, b, out, 256])
    wide, other = a.astype(np.int64), b.astype(np.int64)
    expected = [
        np.trunc(wide / other), np.fmod(wide, other), (wide << 3) ^ (wide >> 2), (wide * other) >> 7,
        (wide % 2**32).astype(np.uint64) * (other % 2**32).astype(np.uint64) >> np.uint64(32),
        np.minimum(wide, other) - np.maximum(wide, other) + np.abs(wide), (wide & other) | (~wide & 255),
        a.astype(np.int8).astype(np.int64) + b.astype(np.int16), np.trunc(a.astype(np.float32) * np.float32(1.5)),
    ]  # fmt: skip
    for row, want in zip(out, expected, strict=True):
        assert (row == want.astype(np.int64).astype(np.int32)).all()


def test_random_numbers_look_random():
    compiled = compile_once(kernels.random_kernel, {"out": "*fp32", "seed": "i32", "n": "i32"}, {"BLOCK": 256})
    out = blank(1024)
    launch(compiled, 4, [out, 3, 1024])
    assert abs(out.mean() - 0.5) < 4 * np.sqrt((1 + 1 / 12) / 1024)  # uniform plus normal, four standard errors


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_half_precision_arithmetic(arch):
    signature = {"x": "*fp16", "y": "*bf16", "out": "*fp32", "n": "i32"}
    compiled = compile_once(kernels.half_precision_kernel, signature, {"BLOCK": 256}, arch=arch)
    a, bits = normal(256).astype(np.float16), (normal(256, seed=1).view(np.uint32) >> 16).astype(np.uint16)
    b = (bits.astype(np.uint32) << 16).view(np.float32)
    out = blank(4, 256)
    launch(compiled, 1, [a, bits, out, 256])
    fused = (a.astype(np.float64) * a + a).astype(np.float16).astype(np.float32)
    assert (out[0] == fused + b).all()
    assert (out[1] == (a.astype(np.float32) * 3).astype(np.float16)).all()
    tripled = (a.astype(np.float32) * 3).view(np.uint32)
    nearest = (tripled + 0x7FFF + (tripled >> 16 & 1)) & 0xFFFF0000  # to the nearest bfloat16, ties to even
    assert (out[2] == nearest.astype(np.uint32).view(np.float32) + b).all()
    assert (out[3] == np.abs(a) + np.abs(b)).all()


def test_loops_that_depend_on_the_data():
    compiled = compile_once(kernels.collatz_kernel, pointers("x out", "*i32"), {"BLOCK": 1}, warps=1)
    x, out = np.array([1, 7, 27], np.int32), np.zeros(3, np.int32)
    launch(compiled, 3, [x, out])
    assert out.tolist() == [0, 16, 111]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cache_hints_and_scalars(arch):
    signature = {**pointers("x y"), "scale": "fp32", "shift": "fp64", "n": "i32"}
    compiled = compile_once(kernels.cached_kernel, signature, {"BLOCK": 512}, arch=arch)
    x, y = normal(600), np.ones(600, np.float32)
    launch(compiled, 2, {"x": x, "y": y, "scale": 0.5, "shift": -1.0, "n": 600})
    assert np.allclose(y, 2 * x, atol=1e-6)
