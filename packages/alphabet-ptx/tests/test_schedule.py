"""Branches, loops, ends, what is known of registers, and instructions that only steer."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute, instructions
from alphabet_testing.ptx.snippets import THREADS, expand, make_kernel, run
from hypothesis import given
from hypothesis import strategies as st

STORE = "mad.wide.u32 %d10, %r0, 4, %d0;\nst.global.b32 [%d10], %r1;"
THREAD = np.arange(THREADS)
# Each with an operand where it needs one; what they do beyond letting the kernel go on is in the tests below.
CONTROL_CASES = {
    pattern: ("$next" if pattern.startswith("bra") else "20" if "sleep" in pattern else "")
    for pattern in instructions.CONTROL
}


@pytest.mark.parametrize("pattern", CONTROL_CASES)
def test_control_instructions(pattern):
    for opcode in expand(pattern):
        out = np.zeros(THREADS, np.int32)
        body = f"mov.b32 %r1, 3;\n{opcode} {CONTROL_CASES[pattern]};\n$next:\n{STORE}"
        if opcode == "trap":
            with pytest.raises(PtxError, match="trap"):
                run(body, out)
        else:
            run(body, out)
            assert (out == (0 if opcode in instructions.EXITS else 3)).all()


def test_nested_branches_join_again():
    body = f"""
    mov.b32 %r1, 0;
    and.b32 %r2, %r0, 1;
    and.b32 %r3, %r0, 2;
    setp.eq.b32 %p1, %r2, 0;
    setp.eq.b32 %p2, %r3, 0;
    @%p1 bra $even;
    @%p2 bra $inner;
    add.s32 %r1, %r1, 10;
    bra $join;
    $inner:
    add.s32 %r1, %r1, 20;
    bra $join;
    $even:
    add.s32 %r1, %r1, 30;
    @!%p2 bra $join;
    add.s32 %r1, %r1, 5;
    $join:
    bar.sync 0;
    shfl.sync.idx.b32 %r4, %r1, 0, 31, -1;
    add.s32 %r1, %r1, %r4;
    {STORE}
    """
    out = np.zeros(THREADS, np.int32)
    run(body, out)
    assert (out == 35 + np.array([35, 20, 30, 10])[THREAD % 4]).all()


@given(trips=st.lists(st.integers(0, 9), min_size=THREADS, max_size=THREADS))
def test_loops_with_a_trip_count_per_thread(trips):
    """sum over i < n of i, with a branch inside the loop, joined behind it."""
    body = f"""
    mad.wide.u32 %d10, %r0, 4, %d1;
    ld.global.b32 %r2, [%d10];
    mov.b32 %r1, 0;
    mov.b32 %r3, 0;
    $loop:
    setp.ge.s32 %p1, %r3, %r2;
    @%p1 bra $end;
    and.b32 %r4, %r3, 1;
    setp.eq.b32 %p2, %r4, 0;
    @%p2 bra $skip;
    add.s32 %r1, %r1, %r3;
    $skip:
    add.s32 %r1, %r1, 100;
    add.s32 %r3, %r3, 1;
    bra.uni $loop;
    $end:
    bar.sync 0;
    {STORE}
    """
    out = np.zeros(THREADS, np.int32)
    run(body, out, np.array(trips, np.int32))
    assert out.tolist() == [sum(i for i in range(n) if i % 2) + 100 * n for n in trips]


def test_threads_that_have_ended_are_not_waited_for():
    out = np.zeros(THREADS, np.int32)
    run(f"setp.ge.u32 %p1, %r0, 32;\n@%p1 ret;\nbar.sync 0;\nmov.b32 %r1, 9;\n{STORE}", out)
    assert (out == np.where(THREAD < 32, 9, 0)).all()


def test_who_comes_first_to_a_collective_waits():
    """The loop's end lies before its head, and every second thread takes the short way there."""
    body = f"""
    mov.b32 %r1, 0;
    mov.b32 %r2, 0;
    and.b32 %r3, %r0, 1;
    setp.eq.b32 %p1, %r3, 0;
    bra $head;
    $tail:
    shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
    bar.sync 0;
    add.s32 %r1, %r1, %r4;
    add.s32 %r4, %r4, %r2;
    setp.ge.s32 %p2, %r4, 33;
    @%p2 bra $end;
    $head:
    add.s32 %r2, %r2, 1;
    @%p1 bra $tail;
    add.s32 %r2, %r2, 9;
    bra $tail;
    $end:
    {STORE}
    """
    out = np.zeros(THREADS, np.int32)
    run(body, out)
    assert out.tolist() == [10 + 20 + 30, 1 + 2 + 3] * (THREADS // 2)


def test_a_barrier_does_not_wait_for_warps_that_end_without_it():
    """They are still running when the first warp comes to the barrier, which lies before them."""
    body = f"""
    mov.b32 %r1, 9;
    setp.lt.u32 %p1, %r0, 32;
    bra $head;
    $meet:
    bar.sync 0;
    {STORE}
    ret;
    $head:
    @%p1 bra $meet;
    mov.b32 %r1, 5;
    {STORE}
    """
    out = np.zeros(THREADS, np.int32)
    run(body, out)
    assert (out == np.where(THREAD < 32, 9, 5)).all()


def test_who_waits_goes_on_when_the_last_come_by_a_branch_that_others_do_not_take():
    """Even lanes of the first warp wait at a shuffle, odd ones jump there, the second warp waits at a later barrier."""
    body = f"""
    and.b32 %r2, %r0, 1;
    setp.eq.b32 %p1, %r2, 0;
    setp.lt.u32 %p2, %r0, 32;
    and.pred %p3, %p1, %p2;
    mov.b32 %r1, %r0;
    bra $head;
    $meet:
    shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;
    bra $end;
    $head:
    @%p3 bra $meet;
    @%p2 bra $meet;
    $end:
    bar.sync 0;
    {STORE}
    """
    out = np.zeros(THREADS, np.int32)
    run(body, out)
    assert (out == np.where(THREAD < 32, THREAD ^ 1, THREAD)).all()


def test_the_grid_is_walked_with_x_first():
    out = np.zeros((4, 3, 2), np.int32)
    body = """
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %nctaid.y;
    mad.lo.u32 %r6, %r3, %r5, %r2;
    mad.lo.u32 %r6, %r6, %r4, %r1;
    mad.wide.u32 %d1, %r6, 4, %d0;
    setp.eq.b32 %p1, %r0, 0;
    @%p1 st.global.b32 [%d1], %r6;
    """
    run(body, out, grid=(2, 3, 4))
    assert (out.ravel() == np.arange(24)).all()


def test_blocks_of_several_dimensions():
    text = make_kernel(
        "mov.u32 %r0, %tid.y;\nld.param.b64 %d0, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ntid.x;\n"
        "mad.lo.u32 %r1, %r0, %r2, %r1;\nmad.wide.u32 %d1, %r1, 4, %d0;\nst.global.b32 [%d1], %r1;",
        ["u64"],
    )
    out = np.zeros(64, np.int32)
    execute(text.replace(".reqntid 64", ".reqntid 16, 4, 1"), 1, [out])
    assert (out == THREAD).all()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("frobnicate.f32 %r1, %r0;", "unknown instruction frobnicate.f32"),
        ("add.sat.f32 %r1, %r0, %r0;", "unknown instruction add.sat.f32"),
        ("tcgen05.wait::ld.sync.aligned;", "unknown instruction tcgen05.wait::ld.sync.aligned"),
        ("mov.u32 %r1, %clusterid.x;", "unknown special register %clusterid.x"),
        ("mov.u64 %d1, %tid.x;", "special register %tid.x has 32 bits"),
        ("bra $nowhere;", "unknown label"),
        ("add.s32 %r1, %r0;", "operands"),
        ("mov.b64 %d1, %r0;", "too narrow"),
        ("add.f32 %r1, %r0, 1;", "constant of type f32"),
        ("bar.sync 0, 32;", "part of the block"),
    ],
)
def test_what_is_not_understood_is_an_error(body, reason):
    with pytest.raises(PtxError, match=reason) as caught:
        run(body)
    assert caught.value.line is not None


def test_a_kernel_that_does_not_end_is_stopped():
    with pytest.raises(PtxError, match="has not ended after 1000 steps"):
        run("$loop:\nbra $loop;", limit=1000)


def test_counts():
    report = run("mov.b32 %r1, 1;\nadd.s32 %r1, %r1, 1;\nadd.s32 %r1, %r1, 1;", grid=3)
    assert report.instructions == {"mov.u32": 3, "mov.b32": 3, "add.s32": 6, "ret": 3}
    assert report.steps == 15
