"""Kernels that Triton compiles for sm_90, executed and compared with float64; then the same with parts left out."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl
from alphabet_ptx import PtxError, execute
from alphabet_testing.ptx import hopper_kernels as kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers

UNFENCED = "asynchronous access after write"


def compile_90(kernel, signature, constants, **options):
    return compile_once(kernel, signature, constants, arch="sm_90", **{"stages": 3, **options})


def require_silence(compiled, report):
    """No races, but for the proxy fence after cp.async that Triton forgot before 3.7 (its pull request 9610)."""
    forgotten = "cp.async.cg" in compiled.ptx and not compiled.triton.startswith("3.7")
    assert {race.kind for race in report.races} <= ({UNFENCED} if forgotten else set())


def halves(*shape, seed=0, scale=1.0):
    return normal(*shape, seed=seed, scale=scale).astype(np.float16)


def describe(array, block):
    strides = [stride // array.itemsize for stride in array.strides]
    return SimpleNamespace(base=array, shape=list(array.shape), strides=strides, block_shape=block)


# Of the sum of |a b|: the cut of the operands, and a rounding to float32 of each of the steps along k.
ERRORS = {"fp16": 32 * 2.0**-24, "bf16": 32 * 2.0**-24, "fp32": 2 * 2.0**-10}
SHAPES = {
    "small": (4, 1, 64, 64, 32),
    "stages": (4, 3, 64, 64, 64),
    "wide": (8, 3, 128, 128, 32),
    "flat": (4, 3, 64, 32, 16),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("kind", "orders"), [("fp16", "rr"), ("fp16", "cc"), ("bf16", "cr"), ("bf16", "rc"), ("fp32", "rr")]
)
def test_products(kind, orders, shape):
    warps, stages, m, n, step = shape
    k = 5 * step - 16
    a, b = normal(m, k), normal(k, n, seed=1)
    if kind == "fp16":
        a, b = a.astype(np.float16), b.astype(np.float16)
    exact = [part.astype(np.float64) for part in (a, b)]
    if kind == "bf16":
        a, b = ((part.view(np.uint32) >> 16).astype(np.uint16) for part in (a, b))
        exact = [(part.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for part in (a, b)]
    # Of each operand one stride is 1, a constant of the compilation.
    strides = {"sam": k, "sak": m, "sbk": n, "sbn": k}
    ones = [("sak", "sam")[orders[0] == "c"], ("sbn", "sbk")[orders[1] == "c"]]
    a, b = (part if order == "r" else np.ascontiguousarray(part.T) for part, order in zip((a, b), orders, strict=True))
    given = {name: stride for name, stride in strides.items() if name not in ones}
    compiled = compile_90(
        kernels.matmul_kernel, {**pointers("a b", f"*{kind}"), "c": "*fp32", "K": "i32", **dict.fromkeys(given, "i32")},
        {**dict.fromkeys(ones, 1), "M": m, "N": n, "BK": step}, warps=warps, stages=stages,
        divisible=("K", *given),
    )  # fmt: skip
    c = blank(m, n)
    report = execute(compiled, 1, {"a": a, "b": b, "c": c, "K": k, **given})
    require_silence(compiled, report)
    assert any(name.startswith("wgmma.mma_async") for name in report.instructions)
    error = np.abs(c - exact[0] @ exact[1]) / (np.abs(exact[0]) @ np.abs(exact[1]))
    assert error.max() < ERRORS[kind]


def test_products_of_integers_and_in_half_precision():
    rng = np.random.default_rng(0)
    a, b, c = (*(rng.integers(-128, 128, (64, 64)).astype(np.int8) for _ in range(2)), np.zeros((64, 64), np.int32))
    constants = {"M": 64, "N": 64, "K": 64}
    compiled = compile_90(kernels.dot_kernel, {**pointers("a b", "*i8"), "c": "*i32"}, {**constants, "OUT": tl.int32})
    report = execute(compiled, 1, [a, b, c])
    assert report.races == []
    assert (c == a.astype(int) @ b.astype(int)).all()
    a, b, c = halves(64, 64), halves(64, 64, seed=1), np.zeros((64, 64), np.float16)
    compiled = compile_90(kernels.dot_kernel, pointers("a b c", "*fp16"), {**constants, "OUT": tl.float16})
    assert execute(compiled, 1, [a, b, c]).races == []
    # Four steps along k, each rounded to 11 bits, of sums below 64.
    assert np.abs(c - a.astype(np.float64) @ b.astype(np.float64)).max() < 4 * 64 * 2.0**-11


def attend(q, k, v):
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)


def compile_attention(warps=4):
    signature = {**pointers("q k v", "*fp16"), "out": "*fp32", "T": "i32"}
    return compile_90(kernels.attention_kernel, signature, {"D": 64, "BM": 16 * warps, "BN": 64}, warps=warps)


@pytest.mark.parametrize("warps", [4, 8])
def test_attention(warps):
    q, k, v = (halves(128, 64, seed=seed, scale=0.3) for seed in range(3))
    compiled, out = compile_attention(warps), blank(128, 64)
    require_silence(compiled, execute(compiled, 128 // (16 * warps), [q, k, v, out, 128]))
    assert np.abs(out - attend(q, k, v)).max() < 2.0**-11  # the weights are rounded to float16


def test_products_of_descriptors_that_the_kernel_makes():
    signature = {**pointers("a b c", "*fp16"), **pointers("M N K", "i32")}
    compiled = compile_90(
        kernels.descriptor_matmul_kernel, signature, {"BM": 64, "BN": 64, "BK": 64}, divisible=("M", "N", "K")
    )
    a, b, c = halves(80, 208), halves(208, 80, seed=1), np.full((80, 80), np.nan, np.float16)
    report = execute(compiled, (2, 2), {"a": a, "b": b, "c": c, "M": 80, "N": 80, "K": 208})
    assert report.races == []
    assert any("tensormap.replace" in name for name in report.instructions)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(c - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float16)) + 1e-4).all()


@pytest.mark.parametrize("arch", ["sm_90", "sm_89"])
def test_products_of_descriptors_that_are_passed(arch):
    kinds = dict.fromkeys(("d_a", "d_b", "d_c"), "tensordesc<fp16[64,64]>")
    compiled = compile_once(
        kernels.passed_matmul_kernel, {**kinds, "K": "i32"}, {"BM": 64, "BN": 64, "BK": 64}, arch=arch, stages=3
    )
    a, b, c = halves(72, 136), halves(80, 136, seed=1), np.full((72, 80), np.nan, np.float16)
    given = {name: describe(array, [64, 64]) for name, array in (("d_a", a), ("d_b", b), ("d_c", c))}
    report = execute(compiled, (2, 2), {**given, "K": 136})
    assert report.races == []
    assert any("cp.async.bulk.tensor" in name for name in report.instructions) == (arch == "sm_90")
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert (np.abs(c - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float16)) + 1e-4).all()
    for wrong in (a, describe(a, [64, 32])):
        with pytest.raises(PtxError, match="d_a must"):
            execute(compiled, (2, 2), {**given, "d_a": wrong, "K": 136})


@pytest.mark.parametrize("kind", ["fp16", "i8"])
def test_boxes_of_three_dimensions(kind):
    dtype = {"fp16": np.float16, "i8": np.int8}[kind]
    compiled = compile_90(
        kernels.descriptor_copy_kernel, {**pointers("x y", f"*{kind}"), **pointers("A B C", "i32")},
        {"BA": 2, "BB": 8, "BC": 32},
    )  # fmt: skip
    x = (10 * normal(5, 13, 96)).astype(dtype)
    y = np.zeros_like(x)
    assert execute(compiled, (3, 2), [x, y, 5, 13, 96]).races == []
    assert (y == x + dtype(1)).all()


def test_sums_in_global_memory():
    compiled = compile_90(
        kernels.descriptor_sum_kernel, {**pointers("x y"), **pointers("M N", "i32")}, {"BM": 16, "BN": 32}
    )
    x, y = normal(20, 40), normal(20, 40, seed=1)
    expected = y.copy()
    for _ in range(3):
        expected[:16, :32] += x[:16, :32]
    assert execute(compiled, 3, [x, y, 20, 40]).races == []
    assert (y == expected).all()


def without(compiled, text, number, instead=""):
    """The kernel with one of the lines that contain a text replaced."""
    lines = compiled.ptx.split("\n")
    found = [i for i, line in enumerate(lines) if text in line and not line.strip().startswith("//")]
    lines[found[number]] = instead
    return replace(compiled, ptx="\n".join(lines))


def find_fault(compiled, grid, arguments, out):
    """How a fault shows: as an error, by the kinds of races, or as NaN; nothing if it does not."""
    out[:] = 7
    try:
        races = execute(compiled, grid, arguments).races
    except PtxError as error:
        return {str(error)}
    return {race.kind for race in races} | ({"nan"} if np.isnan(out).any() else set())


@pytest.mark.parametrize(
    ("text", "number", "shows"),
    [
        ("wgmma.wait_group", 0, "was not waited for"),
        ("wgmma.wait_group", -1, "nan"),
        ("wgmma.commit_group", 0, "was not waited for"),
        ("wgmma.fence", 0, "no wgmma.fence before it"),
        ("wgmma.fence", 1, "was changed after the last wgmma.fence"),
        ("cp.async.wait_group", 0, "nan"),
        ("bar.sync", -1, "read after write"),
    ],
)
def test_faults_planted_in_attention_show(text, number, shows):
    compiled, out = compile_attention(), blank(128, 64)
    q, k, v = (halves(128, 64, seed=seed, scale=0.3) for seed in range(3))
    found = find_fault(without(compiled, text, number), 2, [q, k, v, out, 128], out)
    assert any(shows in each for each in found), found


@pytest.mark.parametrize(
    ("text", "number", "instead", "shows"),
    [
        ("wgmma.wait_group", 0, "", "write during asynchronous read"),
        ("wgmma.wait_group", 1, "", "nan"),
        ("mbarrier.try_wait", 0, "setp.eq.u32 complete, 0, 0;", "before a copy was waited for"),
        ("mbarrier.arrive.expect_tx", 0, "", "that nothing ends"),
        ("mbarrier.init", 0, "", "no mbarrier was initialised"),
        ("fence.proxy.tensormap", 0, "", "no fence.proxy.tensormap since"),
        ("tensormap.cp_fenceproxy", 0, "", "no tensor map"),
        ("fence.proxy.async", -1, "", UNFENCED),
        ("cp.async.bulk.wait_group.read", -1, "", "the block ended with no cp.async.bulk.wait_group"),
        ("cp.async.bulk.commit_group", -1, "", "the block ended with no cp.async.bulk.wait_group"),
    ],
)
def test_faults_planted_in_descriptor_products_show(text, number, instead, shows):
    signature = {**pointers("a b c", "*fp16"), **pointers("M N K", "i32")}
    compiled = compile_90(
        kernels.descriptor_matmul_kernel, signature, {"BM": 64, "BN": 64, "BK": 64}, divisible=("M", "N", "K")
    )
    a, b, c = halves(64, 256), halves(256, 64, seed=1), np.zeros((64, 64), np.float16)
    broken = without(compiled, text, number, instead)
    found = find_fault(broken, 1, {"a": a, "b": b, "c": c, "M": 64, "N": 64, "K": 256}, c)
    assert any(shows in each for each in found), found
