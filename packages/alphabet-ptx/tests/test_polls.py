"""Loops that read one value again and again: those that count end, and those that wait are told."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_testing.ptx.batches import assert_same, find_outcome
from alphabet_testing.ptx.kernels import normal
from alphabet_testing.ptx.snippets import make_kernel

# Each thread adds up what it reads, %r9 times: one value, or in programs from %r8 on the next one each time.
COUNTING = """
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
ld.param.b64 %d0, [k_param_0];
ld.param.b64 %d1, [k_param_1];
mov.b32 %r9, {times};
mov.b32 %r8, {moving};
setp.ge.u32 %p1, %r1, %r8;
selp.b64 %d3, 4, 0, %p1;
mov.b64 %d2, %d0;
mov.b32 %r5, 0;
mov.b32 %r7, 0;
{divide}
AGAIN:
{read} %r6, [%d2];
add.u32 %r7, %r7, %r6;
add.s64 %d2, %d2, %d3;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p0, %r5, %r9;
@%p0 bra AGAIN;
END:
mad.lo.s32 %r2, %r1, 64, %r0;
mul.wide.u32 %d4, %r2, 4;
add.s64 %d4, %d1, %d4;
st.global.b32 [%d4], %r7;
"""
# And atomics in floating point, whose order decides their last bits.
ADDING = """
ld.param.b64 %d5, [k_param_2];
ld.param.b64 %d6, [k_param_3];
mul.wide.u32 %d7, %r2, 4;
add.s64 %d7, %d5, %d7;
ld.global.f32 %r10, [%d7];
red.global.add.f32 [%d6], %r10;
"""


def compare(times, grid, *, moving=99, read="ld.global.b32", divide="", adding=""):
    values = {"times": times, "moving": moving, "read": read, "divide": divide}
    count = 4 if adding else 2
    text = make_kernel(COUNTING.format(**values) + adding, ["u64"] * count)

    def run(together):
        arrays = [np.arange(3, times + 3, dtype=np.uint32), np.zeros(64 * grid, np.uint32)]
        arrays += [normal(64 * grid, scale=1e3), np.zeros(1, np.float32)] if adding else []
        return find_outcome(text, grid, arrays, together=together), arrays[1]

    (outcome, found), (expected, _) = run(None), run(1)
    assert_same(outcome, expected)
    assert not outcome.fault
    return outcome, found


@pytest.mark.slow
def test_a_loop_that_reads_one_value_thousands_of_times_ends():
    _, found = compare(5500, 1)
    assert (found == 3 * 5500).all()


@pytest.mark.slow
def test_one_program_may_read_one_value_while_others_go_on():
    outcome, found = compare(5500, 2, moving=1)
    assert (found[:64] == 3 * 5500).all()
    assert (found[64:] == sum(range(3, 5503)) % 2**32).all()
    assert outcome.together == 2


@pytest.mark.slow
def test_a_long_loop_does_not_change_the_order_of_programs():
    """Sums by atomics are in the order of programs, however long each of them takes to get there."""
    outcome, _ = compare(600, 3, adding=ADDING)
    assert outcome.together == 3


@pytest.mark.slow
def test_threads_that_count_alone_are_waited_for_where_all_meet():
    outcome, _ = compare(700, 2, divide="setp.lt.u32 %p2, %r0, 5;\n@!%p2 bra END;")
    assert outcome.together == 2


@pytest.mark.parametrize("read", ["ld.volatile.global.b32", "ld.acquire.gpu.global.b32"])
def test_a_loop_that_counts_ends_also_if_its_reads_are_ordered(read):
    _, found = compare(400, 1, read=read)
    assert (found == 1200).all()


def test_a_loop_that_counts_by_atomics_in_shared_memory_ends():
    body = """
mov.b32 %r1, 0;
mov.b32 %r2, buffer;
AGAIN:
st.shared.b32 [%r2], 5;
bar.sync 0;
atom.shared.max.u32 %r3, [%r2], 5;
bar.sync 0;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p0, %r1, 400;
@%p0 bra AGAIN;
"""
    text = make_kernel(body, (), 64, 4)
    assert_same(find_outcome(text, 1, []), find_outcome(text, 1, [], together=1))
    assert execute(text, 1, []).instructions["atom.shared.max.u32"] == 400


@pytest.mark.slow
@pytest.mark.parametrize("together", [None, 1])
def test_a_loop_in_which_nothing_changes_waits(together):
    body = "ld.param.b64 %d0, [k_param_0];\nAGAIN:\nld.global.b32 %r1, [%d0];\n"
    body += "setp.eq.u32 %p0, %r1, 0;\n@%p0 bra AGAIN;"
    with pytest.raises(PtxError, match="waits in a loop for a value from another program"):
        execute(make_kernel(body, ["u64"]), 1, [np.zeros(1, np.uint32)], together=together)
