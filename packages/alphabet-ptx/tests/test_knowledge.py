"""Values that nobody has written or that PTX leaves open: they spread, and are refused where they would show."""

import numpy as np
import pytest
from alphabet_ptx import PtxError
from alphabet_testing.ptx.snippets import THREADS, offset, run

THREAD = np.arange(THREADS)
STORE = f"{offset(4)}\nst.global.b32 [%d10], %r1;"
PARTIAL = "setp.lt.u32 %p1, %r0, 5;\n@%p1 mov.b32 %r1, 1;\n@%p1 setp.eq.b32 %p2, %r0, %r0;\n@%p1 mov.b64 %d2, %d0;\n"


def store(body, dtype=np.int32):
    """What a body leaves in %r1, per thread."""
    out = np.zeros(THREADS, dtype)
    run(f"{body}\n{STORE}", out)
    return out


@pytest.mark.parametrize(
    ("body", "use"),
    [
        (STORE, "global memory"),
        ("add.s32 %r1, %r1, 1;\nneg.s32 %r1, %r1;\n" + STORE, "global memory"),
        ("shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;\n" + STORE, "global memory"),
        ("@%p2 bra $end;\n$end:", "predicate"),
        ("@%p2 mov.b32 %r3, 1;", "predicate"),
        ("ld.global.b32 %r3, [%d2];", "address"),
        ("selp.b32 %r1, %r0, %r0, %p2;\n" + STORE, "global memory"),
        ("red.global.add.s32 [%d0], %r1;", "atomic"),
    ],
)
def test_an_unknown_value_is_refused_where_it_would_show(body, use):
    with pytest.raises(PtxError, match=use) as caught:
        run(PARTIAL + body, np.zeros(THREADS, np.int32))
    assert "uninitialised register" in str(caught.value)
    assert caught.value.thread in (4, 5)  # the shuffle moves it to the neighbour


@pytest.mark.parametrize(
    "body", ["redux.sync.add.s32 %r1, %r1, -1;", "vote.sync.all.pred %p3, %p2, -1;\nselp.b32 %r1, 1, 0, %p3;"]
)
def test_one_unknown_lane_decides_for_its_warp(body):
    with pytest.raises(PtxError, match="global memory") as caught:
        store(PARTIAL + body)
    assert caught.value.thread == 0


def test_an_unknown_value_that_is_not_used_does_no_harm():
    body = "add.s32 %r1, %r1, 1;\nshfl.sync.up.b32 %r2, %r1, 1, 0, -1;\nmov.b32 %r3, 0;\nselp.b32 %r1, %r1, %r3, %p1;\n"
    assert (store(PARTIAL + body) == np.where(THREAD < 5, 2, 0)).all()


def test_the_message_names_the_register_that_nothing_wrote():
    with pytest.raises(PtxError, match=r"in register %r1: uninitialised register %r7, to which") as caught:
        store("add.s32 %r2, %r7, 1;\nxor.b32 %r1, %r2, %r0;")
    assert caught.value.instruction == "st.global.b32 [%d10], %r1"


def test_the_message_names_the_division_by_zero():
    with pytest.raises(PtxError, match=r"global memory is unknown.*division by zero in PTX line \d+"):
        store("mov.b32 %r2, 0;\nrem.u32 %r3, %r0, %r2;\nadd.s32 %r1, %r3, 1;")


@pytest.mark.parametrize("opcode", ["div.s32", "div.u32", "rem.s32", "rem.u32"])
def test_a_quotient_by_zero_that_is_not_used_does_no_harm(opcode):
    found = store(f"{opcode} %r2, 64, %r0;\nsetp.ne.b32 %p1, %r0, 0;\nselp.b32 %r1, %r2, 7, %p1;")
    function = np.floor_divide if "div" in opcode else np.remainder
    assert found.tolist() == [7, *(function(64, THREAD[1:]).tolist())]


def test_idle_threads_may_divide_by_zero():
    found = store("mov.b32 %r1, 0;\nsetp.ne.b32 %p1, %r0, 0;\n@%p1 div.s32 %r1, 64, %r0;")
    assert found.tolist() == [0, *(64 // i for i in range(1, THREADS))]


FP8_OF_PAIR = "mov.b16 %h1, 0x3C00;\nmov.b32 %r2, {{{}}};\ncvt.rn.satfinite.e4m3x2.f16x2 %h2, %r2;"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("and.b32 %r1, %r7, 0;", 0),
        ("or.b32 %r1, %r7, -1;", -1),
        ("and.b32 %r1, %r7, 0;\nor.b32 %r1, %r1, %r0;", THREAD),
        ("setp.lt.u32 %p1, %r0, 0;\nand.pred %p2, %p1, %p7;\nselp.b32 %r1, 1, 2, %p2;", 2),
        ("setp.ge.u32 %p1, %r0, 0;\nor.pred %p2, %p7, %p1;\nselp.b32 %r1, 1, 2, %p2;", 1),
        ("prmt.b32 %r1, %r0, %r7, 0x3210;", THREAD),
        ("prmt.b32 %r2, %r0, %r7, 0x7610;\nand.b32 %r1, %r2, 0xFFFF;", THREAD),
        ("prmt.b32 %r2, %r7, %r0, 0x5410;\nshr.u32 %r1, %r2, 16;", THREAD),
        ("mov.b32 %r2, {%h7, %h8};\nshl.b32 %r2, %r2, 32;\nor.b32 %r1, %r2, %r0;", THREAD),
        ("mov.b64 %d2, {%r7, %r0};\nmov.b64 {%r3, %r1}, %d2;", THREAD),
        ("mov.b64 %d2, {%r0, %r7};\ncvt.u32.u64 %r1, %d2;", THREAD),
        (f"{FP8_OF_PAIR.format('%h1, %h7')}\ncvt.u32.u8 %r1, %h2;", 0x38),
        ("cvt.rn.satfinite.e5m2x2.f32 %h2, %r7, 0f3F800000;\ncvt.u32.u8 %r1, %h2;", 0x3C),
        ("cvt.rn.f16x2.f32 %r2, %r7, 0f3F800000;\nmov.b32 {%h2, _}, %r2;\ncvt.u32.u16 %r1, %h2;", 0x3C00),
        ("mov.b64 %d2, {%r0, %r7};\nmov.b64 %d3, %d2;\nshl.b64 %d3, %d3, 32;\nmov.b64 {_, %r1}, %d3;", THREAD),
    ],
)
def test_what_does_not_depend_on_an_unknown_value_is_known(body, want):
    assert (store(body) == want).all()


@pytest.mark.parametrize(
    "body",
    [
        "and.b32 %r1, %r7, 1;",
        "or.b32 %r1, %r7, 0;",
        "and.b32 %r1, %r7, %r8;",
        "prmt.b32 %r1, %r0, %r7, 0x4210;",
        "prmt.b32 %r1, %r0, %r0, %r7;",
        "mov.b64 %d2, {%r7, %r0};\nmov.b64 {%r1, %r3}, %d2;",
        "mov.b64 %d2, {%r7, %r0};\nshr.u64 %d2, %d2, 31;\ncvt.u32.u64 %r1, %d2;",
        "mov.b64 %d2, {%r7, %r0};\nadd.s64 %d2, %d2, 0;\nmov.b64 {%r3, %r1}, %d2;",
        "cvt.s32.s16 %r1, %h7;",
        f"{FP8_OF_PAIR.format('%h7, %h1')}\ncvt.u32.u8 %r1, %h2;",
        "cvt.rn.satfinite.e5m2x2.f32 %h2, 0f3F800000, %r7;\ncvt.u32.u8 %r1, %h2;",
        "cvt.rn.f16x2.f32 %r2, %r7, 0f3F800000;\nshr.u32 %r1, %r2, 16;",
    ],
)
def test_what_depends_on_an_unknown_value_is_unknown(body):
    with pytest.raises(PtxError, match="a value stored to global memory is unknown"):
        store(body)


def test_a_narrow_store_needs_only_the_bytes_that_it_stores():
    out = np.zeros(THREADS, np.uint16)
    body = f"cvt.u16.u32 %h1, %r0;\nmov.b32 %r1, {{%h1, %h7}};\n{offset(2)}\nst.global.b16 [%d10], %r1;"
    run(body, out)
    assert (out == THREAD).all()
    with pytest.raises(PtxError, match="global memory"):
        run(body.replace("%h1, %h7", "%h7, %h1"), out)


def test_known_again_after_another_write():
    assert (store("mov.b64 %d2, {%r7, %r0};\nmov.b64 %d2, 5;\ncvt.u32.u64 %r1, %d2;") == 5).all()
    # A write in some threads leaves the others as they were.
    body = "mov.b64 %d2, {%r7, %r0};\nsetp.lt.u32 %p1, %r0, 5;\n@%p1 mov.b64 %d2, 5;\ncvt.u32.u64 %r1, %d2;\n"
    with pytest.raises(PtxError, match="global memory") as caught:
        store(body)
    assert caught.value.thread == 5
    assert (store(body + "shr.u64 %d2, %d2, 32;\ncvt.u32.u64 %r1, %d2;") == np.where(THREAD < 5, 0, THREAD)).all()


DEPOT = ".local .align 8 .b8 depot[16];\n"


def test_local_memory_keeps_what_is_unknown():
    spill = DEPOT + "mov.b64 %d2, {%r0, %r7};\nst.local.b64 [depot+8], %d2;\n"
    assert (store(spill + "ld.local.b32 %r1, [depot+8];") == THREAD).all()
    for place in ("depot+12", "depot"):
        with pytest.raises(PtxError, match="local memory to which nothing known was written"):
            store(f"{spill}ld.local.b32 %r1, [{place}];")


def test_a_copy_of_nothing_needs_no_address():
    body = "shl.b32 %r4, %r0, 2;\nmov.b32 %r2, {};\ncp.async.ca.shared.global [%r4], [%d7], 4, %r2;\n"
    body += "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 %r1, [%r4];\n" + STORE
    out = np.ones(THREADS, np.int32)
    run(body.format(0), out, shared=4 * THREADS)
    assert (out == 0).all()
    with pytest.raises(PtxError, match="an address is unknown"):
        run(body.format(4), out, shared=4 * THREADS)


def test_an_unknown_value_is_nan_in_shared_memory():
    body = "shl.b32 %r2, %r0, 2;\nst.shared.b32 [%r2], %r7;\nld.shared.b32 %r1, [%r2];\n"
    out = np.zeros(THREADS, np.float32)
    run(body + STORE, out, shared=4 * THREADS)
    assert np.isnan(out).all()


def test_an_unknown_factor_makes_its_row_or_column_unknown():
    """mma: lane 4 i + j has, of A (16 x 8), the rows i and i + 8, and of B (8 x 8) the column i."""
    product = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r20, %r21, %r22, %r23}, {%r2, %r3, %r4, %r5}, "
    product += "{%r6, %r8}, {%r9, %r11, %r12, %r13};\n"
    known = "\n".join(f"mov.b32 %r{i}, 0f3F800000;" for i in (2, 3, 4, 5, 6, 8, 9, 11, 12, 13))
    lane = f"{known}\nsetp.ne.u32 %p1, %r0, 4;\nmov.b32 %r7, 0;\n"  # lane 4 is row 1 and column 1
    for operand, result, other, thread in [("%r2", 20, 22, 4), ("%r3", 22, 20, 4), ("%r6", 21, 20, 0)]:
        body = f"{lane}add.s32 %r7, %r30, 0;\n@!%p1 mov.b32 {operand}, %r7;\n{product}mov.b32 %r1, %r"
        with pytest.raises(PtxError, match="global memory is unknown") as caught:
            store(f"{body}{result};")
        assert caught.value.thread == thread
        assert (store(f"{body}{other};", np.float32) == 9).all()
