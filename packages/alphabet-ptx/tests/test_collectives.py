"""Shuffles, votes, reductions and tensor-core instructions against plain loops; what divergence does to them."""

import numpy as np
import pytest
from alphabet_ptx import (
    PtxError,
    atomics,
    clusters,
    collectives,
    conversions,
    copies,
    externals,
    instructions,
    integers,
    matrices,
    mbarriers,
    reals,
    tensor_copies,
    tensormaps,
    transfers,
    warpgroups,
)
from alphabet_testing.ptx.snippets import THREADS, decode_bf16, decode_fp8, expand, offset, run

LANE = np.arange(THREADS) % 32
WARP = np.arange(THREADS) - LANE


def shuffled(mode, values, amount, clamp):
    """The PTX manual's pseudocode."""
    result, inside = values.copy(), np.zeros(THREADS, bool)
    for thread, lane in enumerate(LANE):
        segment, b = clamp >> 8 & 31, amount & 31
        limit = (lane & segment) | (clamp & 31 & ~segment)
        lowest = lane & segment
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment)}[mode]
        inside[thread] = j >= limit if mode == "up" else j <= limit
        result[thread] = values[WARP[thread] + (j if inside[thread] else lane)]
    return result, inside


def check_shuffle(opcode):
    mode = opcode.split(".")[2]
    values = np.random.default_rng(0).integers(0, 2**32, THREADS, np.uint32)
    for amount in (0, 1, 2, 5, 16, 31):
        for clamp in (0, 31, 0x1C1F, 0x1C03, 0x100F, 0x1F):
            out, inside = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
            body = f"""
            {offset(4)}
            ld.global.b32 %r1, [%d10];
            {opcode} %r2|%p1, %r1, {amount}, {clamp}, -1;
            selp.b32 %r3, 1, 0, %p1;
            {offset(4, 1)}
            st.global.b32 [%d10], %r2;
            {offset(4, 2)}
            st.global.b32 [%d10], %r3;
            """
            run(body, values, out, inside)
            expected, reached = shuffled(mode, values, amount, clamp)
            assert (out == expected).all(), (opcode, amount, clamp)
            assert (inside == reached).all(), (opcode, amount, clamp)


def check_vote(opcode):
    mode = opcode.split(".")[2]
    for pattern in (0, 0xFFFFFFFF, 0x00F0A001):
        values = (np.uint32(pattern) >> LANE.astype(np.uint32) & np.uint32(1)).astype(np.uint32)
        values[:32] = 1  # the other warp votes yes
        out = np.zeros(THREADS, np.uint32)
        target, show = ("%r2", "") if mode == "ballot" else ("%p2", "selp.b32 %r2, 1, 0, %p2;")
        body = (
            f"{offset(4)}\nld.global.b32 %r1, [%d10];\nsetp.ne.b32 %p1, %r1, 0;\n{opcode} {target}, %p1, -1;\n{show}\n"
        )
        run(body + f"{offset(4, 1)}\nst.global.b32 [%d10], %r2;", values, out)
        for first in (0, 32):
            warp = values[first : first + 32]
            want = {
                "all": warp.all(), "any": warp.any(), "uni": warp.all() or not warp.any(),
                "ballot": sum(int(bit) << i for i, bit in enumerate(warp)),
            }[mode]  # fmt: skip
            assert (out[first : first + 32] == want).all(), (opcode, pattern)


def check_redux(opcode):
    mode, kind = opcode.split(".")[2:]
    dtype = np.int32 if kind == "s32" else np.uint32
    values = np.random.default_rng(1).integers(-(2**31), 2**31, THREADS).astype(dtype)
    out = np.zeros(THREADS, dtype)
    run(
        f"{offset(4)}\nld.global.b32 %r1, [%d10];\n{opcode} %r2, %r1, -1;\n{offset(4, 1)}\nst.global.b32 [%d10], %r2;",
        values,
        out,
    )
    function = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[mode]  # fmt: skip
    for warp in range(2):
        assert (out[32 * warp :][:32] == function.reduce(values[32 * warp :][:32], dtype=dtype)).all(), opcode


def check_active(opcode):
    out = np.zeros(THREADS, np.uint32)
    run(f"setp.lt.u32 %p1, %r0, 40;\nmov.b32 %r1, 0;\n@%p1 {opcode} %r1;\n{offset(4)}\nst.global.b32 [%d10], %r1;", out)
    assert (out[:32] == 0xFFFFFFFF).all()
    assert (out[32:40] == 0xFF).all()
    assert (out[40:] == 0).all()


def check_barrier(opcode):
    """A value crosses from one half of the block to the other, or within a warp."""
    distance = 16 if "warp" in opcode else 32
    out = np.zeros(THREADS, np.uint32)
    body = f"""
    shl.b32 %r1, %r0, 2;
    st.shared.b32 [%r1], %r0;
    {opcode} {"-1" if "warp" in opcode else "0"};
    xor.b32 %r1, %r1, {4 * distance};
    ld.shared.b32 %r2, [%r1];
    {offset(4)}
    st.global.b32 [%d10], %r2;
    """
    assert run(body, out, shared=4 * THREADS).races == []
    assert (out == np.arange(THREADS) ^ distance).all()
    missing = run(body.replace(opcode, "//"), out, shared=4 * THREADS).races
    assert [race.kind for race in missing] == ["read after write"]


def make_matrix(rows, columns, kind, seed):
    """A matrix as numbers, and as its 8-, 16-, 32- or 64-bit elements."""
    rng = np.random.default_rng(seed)
    if kind in ("s8", "u8", "s32"):
        elements = np.iinfo({"s8": "i1", "u8": "u1", "s32": "i4"}[kind])
        bits = rng.integers(elements.min, elements.max, (rows, columns), elements.dtype, endpoint=True)
        bits[:2] = [[elements.max], [elements.min]]
        return bits.astype(np.float64), bits
    if kind in ("e4m3", "e5m2"):
        bits = rng.integers(0, 0x60, (rows, columns), np.uint8) | (rng.integers(0, 2, (rows, columns), np.uint8) << 7)
        return np.vectorize(lambda each: decode_fp8(int(each), kind), otypes=[float])(bits), bits
    values = rng.standard_normal((rows, columns))
    if kind == "f16":
        return values.astype(np.float16).astype(np.float64), values.astype(np.float16).view(np.uint16)
    if kind == "f64":
        return values, values
    bits = values.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        halves = (bits >> 16).astype(np.uint16)
        return np.vectorize(decode_bf16)(halves), halves
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)  # the rest must not matter
    return (cut if kind == "tf32" else values.astype(np.float32).astype(np.float64)), bits


def check_mma(opcode):
    """Two warps, each with the same matrices; layouts written down from the figures of the PTX manual."""
    _, _, _, shape, _, _, result, kind, other, _ = opcode.replace(".satfinite", "").split(".")
    m, k = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    a, a_bits = make_matrix(m, k, kind, 0)
    b, b_bits = make_matrix(k, 8, other, 1)
    c, c_bits = make_matrix(m, 8, result, 2)
    word, size = ("b64", 8) if kind == "f64" else ("b32", 4)
    pair = size // a_bits.itemsize
    register = "%d" if kind == "f64" else "%r"
    parts = {"a": [], "b": [], "c": []}
    for lane in range(32):
        group, member = lane // 4, lane % 4
        parts["a"].append([
            a_bits[group + 8 * half, step + pair * member + i]
            for step in range(0, k, 4 * pair) for half in range(m // 8) for i in range(pair)
        ])  # fmt: skip
        parts["b"].append(
            [b_bits[step + pair * member + i, group] for step in range(0, k, 4 * pair) for i in range(pair)]
        )
        parts["c"].append([c_bits[group + 8 * half, 2 * member + i] for half in range(m // 8) for i in range(2)])
    fragments = {name: np.tile(np.array(rows), (2, 1)) for name, rows in parts.items()}
    counts = {name: rows.shape[1] * rows.itemsize // size for name, rows in fragments.items()}
    out = np.zeros_like(fragments["c"])
    body, named, first = [], {}, 11
    for pointer, name in enumerate(("a", "b", "c")):
        body.append(f"mad.wide.u32 %d10, %r0, {counts[name] * size}, %d{pointer};")
        named[name] = [f"{register}{first + i}" for i in range(counts[name])]
        first += counts[name]
        body += [f"ld.global.{word} {name_}, [%d10+{i * size}];" for i, name_ in enumerate(named[name])]
    vectors = {name: "{" + ", ".join(names) + "}" for name, names in named.items()}
    body.append(f"{opcode} {vectors['c']}, {vectors['a']}, {vectors['b']}, {vectors['c']};")
    body.append(f"mad.wide.u32 %d10, %r0, {counts['c'] * size}, %d3;")
    body += [f"st.global.{word} [%d10+{i * size}], {name};" for i, name in enumerate(named["c"])]
    run("\n".join(body), *fragments.values(), out)
    expected = a @ b + c
    if result == "s32":
        limits = np.iinfo(np.int32)
        assert (np.abs(expected) > limits.max).any()  # there is something to saturate, or to wrap around
        expected = (
            expected.clip(limits.min, limits.max) if "satfinite" in opcode else expected.astype("i8").astype("i4")
        )
    got = out.view({"f16": "f2", "f32": "f4", "f64": "f8", "s32": "i4"}[result])
    for thread in range(THREADS):
        group, member = thread % 32 // 4, thread % 4
        want = np.array([expected[group + 8 * half, 2 * member + i] for half in range(m // 8) for i in range(2)])
        # One rounding at the end; float64 sums may differ in their order.
        rounded = {"f16": np.float16, "f32": np.float32}.get(result)
        allowed = 0.501 * np.spacing(np.abs(want).astype(rounded)).astype(np.float64) if rounded else 1e-14
        assert (np.abs(got[thread].astype(np.float64) - want) <= allowed).all(), opcode


def check_ldmatrix(opcode):
    count = int(opcode.split(".x")[1][0])
    data = np.random.default_rng(0).integers(0, 2**16, (2, 4, 8, 8), np.uint16)
    out = np.zeros((THREADS, count, 2), np.uint16)
    targets = "{" + ", ".join(f"%r{20 + i}" for i in range(count)) + "}"
    body = f"""
    mad.wide.u32 %d10, %r0, 16, %d0;
    ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d10];
    shl.b32 %r5, %r0, 4;
    st.shared.v4.b32 [%r5], {{%r1, %r2, %r3, %r4}};
    bar.sync 0;
    {opcode} {targets}, [%r5];
    mad.wide.u32 %d10, %r0, {4 * count}, %d1;
    """
    body += "\n".join(f"st.global.b32 [%d10+{4 * i}], %r{20 + i};" for i in range(count))
    assert run(body, data, out, shared=16 * THREADS).races == []
    for thread in range(THREADS):
        row, column = thread % 32 // 4, 2 * (thread % 4)
        for i in range(count):
            matrix = data[thread // 32, i]
            matrix = matrix.T if "trans" in opcode else matrix
            assert (out[thread, i] == matrix[row, column : column + 2]).all(), opcode


def check_stmatrix(opcode):
    count = int(opcode.split(".x")[1][0])
    data = np.random.default_rng(0).integers(0, 2**16, (THREADS, count, 2), np.uint16)
    out = np.zeros((2, 4, 8, 8), np.uint16)
    sources = "{" + ", ".join(f"%r{20 + i}" for i in range(count)) + "}"
    body = f"mad.wide.u32 %d10, %r0, {4 * count}, %d0;\n"
    body += "\n".join(f"ld.global.b32 %r{20 + i}, [%d10+{4 * i}];" for i in range(count))
    body += f"""
    shl.b32 %r5, %r0, 4;
    {opcode} [%r5], {sources};
    bar.sync 0;
    ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r5];
    mad.wide.u32 %d10, %r0, 16, %d1;
    st.global.v4.b32 [%d10], {{%r1, %r2, %r3, %r4}};
    """
    assert run(body, data, out, shared=16 * THREADS).races == []
    assert run(body.replace("bar.sync 0;", ""), data, out.copy(), shared=16 * THREADS).races
    for thread in range(THREADS):
        row, column = thread % 32 // 4, 2 * (thread % 4)
        for i in range(count):
            matrix = out[thread // 32, i]
            matrix = matrix.T if "trans" in opcode else matrix
            assert (data[thread, i] == matrix[row, column : column + 2]).all(), opcode


CHECKS = {
    "shfl": check_shuffle, "vote": check_vote, "redux": check_redux, "activemask": check_active, "bar": check_barrier,
    "barrier": check_barrier, "mma": check_mma, "ldmatrix": check_ldmatrix, "stmatrix": check_stmatrix,
}  # fmt: skip
TABLE = collectives.TABLE | matrices.TABLE


@pytest.mark.parametrize("pattern", TABLE)
def test_every_collective_opcode(pattern):
    opcodes = expand(pattern)
    assert opcodes  # or nothing would be checked; each check asserts what its opcode computes
    for opcode in opcodes:
        CHECKS[opcode.split(".")[0]](opcode)


def test_no_instruction_is_without_a_test():
    """The tables that this module and the tests of the same names iterate over."""
    elementwise = {*integers.TABLE, *reals.TABLE, *conversions.TABLE}
    bulk = {*mbarriers.TABLE, *tensormaps.TABLE, *tensor_copies.TABLE, *clusters.TABLE}  # in test_tensor_copies
    memory = {*transfers.TABLE, *copies.TABLE, *atomics.TABLE}  # in test_memory
    plain = {*elementwise, *memory, *instructions.CONTROL, *externals.TABLE, *TABLE}  # those in test_calls
    assert set(instructions.TABLE) == {*plain, *warpgroups.TABLE, *bulk}


def test_no_two_patterns_claim_one_opcode():
    for opcode in ("add.f32", "add.s32", "mul.wide.s32", "ld.global.b32", "bar.sync", "cvt.rn.f32.f64", "min.NaN.f32"):
        assert sum(bool(regex.fullmatch(opcode)) for regex, _ in instructions._PATTERNS) == 1


@pytest.mark.parametrize(
    "instruction",
    [
        "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;",
        "redux.sync.add.s32 %r2, %r0, -1;",
        "bar.sync 0;",
        "bar.warp.sync -1;",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [buffer];",
    ],
)
@pytest.mark.parametrize("how", ["branch", "guard"])
def test_collectives_under_divergence_are_refused(instruction, how):
    body = ["setp.lt.u32 %p1, %r0, 40;"]
    body += ["@!%p1 bra $after;", instruction, "$after:"] if how == "branch" else [f"@%p1 {instruction}"]
    with pytest.raises(PtxError, match="under divergence"):
        run("\n".join(body), shared=256)


def test_whole_warps_may_shuffle_alone():
    out = np.zeros(THREADS, np.uint32)
    body = f"""
    mov.b32 %r2, 7;
    setp.lt.u32 %p1, %r0, 32;
    @!%p1 bra $after;
    shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;
    $after:
    {offset(4)}
    st.global.b32 [%d10], %r2;
    """
    run(body, out)
    assert (out == np.where(np.arange(THREADS) < 32, np.arange(THREADS) ^ 1, 7)).all()


def test_named_lanes_may_shuffle_without_the_others():
    body = "setp.lt.u32 %p1, %laneid, 16;\n@%p1 shfl.sync.bfly.b32 %r2, %r0, 1, 31, 0xFFFF;"
    run(body)
    with pytest.raises(PtxError, match="not active"):
        run(body.replace("%r0, 1, 31", "%r0, 16, 31"))
