"""Other orders of programs, warps and threads: what must not change stays, what may change does, races are found."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, outputs_differ
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import THREADS, make_kernel, run

ORDERS = ("ascending", "descending", 0, 1)
PLACE = "mov.u32 %r9, %ctaid.x;\nmov.u32 %r8, %nctaid.x;\nsetp.eq.u32 %p0, %r0, 0;\n"


def take_tickets(order, programs):
    """Which ticket each program gets."""
    found = np.zeros(programs, np.int32)
    body = "@%p0 atom.global.add.u32 %r1, [%d0], 1;\nmad.wide.u32 %d2, %r9, 4, %d1;\n@%p0 st.global.b32 [%d2], %r1;"
    assert run(PLACE + body, np.zeros(1, np.int32), found, grid=programs, order=order).races == []
    return found.tolist()


def test_programs_run_in_the_order_of_the_launch():
    assert take_tickets("ascending", 9) == list(range(9))
    assert take_tickets("descending", 9) == list(reversed(range(9)))
    first, again, second = (take_tickets(seed, 9) for seed in (3, 3, 4))
    assert sorted(first) == list(range(9))
    assert first == again != second


def test_atomics_of_a_block_happen_in_the_order_of_the_launch():
    body = "atom.global.add.u32 %r1, [%d0], 1;\nmad.wide.u32 %d2, %r0, 4, %d1;\nst.global.b32 [%d2], %r1;"
    tickets = {}
    for order in ORDERS:
        found = np.zeros(THREADS, np.int32)
        run(body, np.zeros(1, np.int32), found, order=order)
        tickets[order] = found.tolist()
        assert sorted(found) == list(range(THREADS))
    assert tickets["ascending"] == list(range(THREADS))
    assert tickets["descending"] == list(reversed(range(THREADS)))
    assert tickets[0] not in (tickets[1], tickets["ascending"], tickets["descending"])


def test_the_last_of_several_stores_wins_in_each_order():
    for order, winner in (("ascending", THREADS - 1), ("descending", 0)):
        found = np.full(1, -1, np.int32)
        assert len(run("st.global.b32 [%d0], %r0;", found, order=order).races) == 1
        assert found[0] == winner


@pytest.mark.parametrize("order", [True, -1, "random", 1.5, None])
def test_an_unknown_order_is_refused(order):
    with pytest.raises(PtxError, match="order must be"):
        run("", order=order)


@pytest.mark.parametrize("order", ORDERS)
def test_groups_that_run_apart_meet_at_barriers_and_shuffles(order):
    """Sums over a warp by shuffles, over both warps through shared memory, with a branch on the way."""
    body = """
    mov.b32 %r1, %r0;
    and.b32 %r2, %r0, 1;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra $even;
    add.s32 %r1, %r1, 100;
    $even:
    shfl.sync.bfly.b32 %r3, %r1, 16, 31, -1;
    add.s32 %r1, %r1, %r3;
    shr.u32 %r4, %r0, 5;
    shl.b32 %r4, %r4, 2;
    and.b32 %r5, %r0, 31;
    setp.eq.u32 %p2, %r5, 0;
    @%p2 st.shared.b32 [%r4], %r1;
    bar.sync 0;
    xor.b32 %r4, %r4, 4;
    ld.shared.b32 %r6, [%r4];
    add.s32 %r1, %r1, %r6;
    mad.wide.u32 %d1, %r0, 4, %d0;
    st.global.b32 [%d1], %r1;
    """
    out = np.zeros(THREADS, np.int32)
    report = run(body, out, shared=16, order=order)
    assert report.races == []
    value = np.arange(THREADS) + 100 * (np.arange(THREADS) % 2)
    pair = value + value[np.arange(THREADS) ^ 16]
    assert (out == pair + np.repeat(pair[[32, 0]], 32)).all()


@pytest.mark.parametrize("order", ORDERS[1:])
def test_threads_that_end_early_are_not_waited_for_in_any_order(order):
    out = np.zeros(THREADS, np.int32)
    body = "setp.ge.u32 %p1, %r0, 16;\n@%p1 ret;\nbar.sync 0;\nmad.wide.u32 %d1, %r0, 4, %d0;\nst.global.b32 [%d1], 9;"
    run(body, out, order=order)
    assert (out == np.where(np.arange(THREADS) < 16, 9, 0)).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("body", "races"),
    [
        ("st.shared.b32 [%r1], %r0;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];", True),
        ("st.shared.b32 [%r1], %r0;\nbar.sync 0;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];", False),
        ("st.shared.b32 [%r1], %r0;\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 4;\nld.shared.b32 %r3, [%r2];", False),
        ("ld.shared.b32 %r3, [%r1];\nxor.b32 %r2, %r1, 4;\nst.shared.b32 [%r2], %r0;", True),
        ("ld.shared.b32 %r3, [%r1];\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 128;\nst.shared.b32 [%r2], %r0;", True),
        ("st.shared.b32 [0], %r0;", True),
        ("mov.b32 %r3, 5;\nst.shared.b32 [0], %r3;", False),
        ("red.shared.add.s32 [0], %r0;\nred.shared.add.s32 [0], %r0;", False),
        ("red.shared.add.s32 [0], %r0;\nld.shared.b32 %r3, [0];", True),
    ],
)
def test_races_within_a_block_are_found_in_every_order(body, races, order):
    assert bool(run("shl.b32 %r1, %r0, 2;\n" + body, shared=4 * THREADS, order=order).races) is races


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("body", "races"),
    [
        ("st.global.b32 [%d1], %r1;", False),
        ("ld.global.b32 %r2, [%d0];", False),
        ("ld.global.b32 %r2, [%d1+256];\nadd.s32 %r2, %r2, 5;\nst.global.b32 [%d1], %r2;", True),
        ("add.s32 %r2, %r1, 7;\nst.global.b32 [%d1], %r2;\nbar.sync 0;\nld.global.b32 %r2, [%d0];", True),
        ("mad.wide.u32 %d2, %r0, 4, %d0;\nadd.s32 %r2, %r1, 7;\nst.global.b32 [%d2], %r2;", True),
        ("red.global.add.s32 [%d0], %r0;", False),
        # all programs read, the first or the last or one in the middle writes
        *(
            (f"ld.global.b32 %r2, [%d0];\nsetp.eq.u32 %p1, %r1, {64 * i};\n@%p1 st.global.b32 [%d0], 3;", True)
            for i in range(3)
        ),
    ],
)
def test_races_between_programs_are_found_in_every_order(body, races, order):
    place = "mov.u32 %r9, %ctaid.x;\nmad.lo.u32 %r1, %r9, 64, %r0;\nmad.wide.u32 %d1, %r1, 4, %d0;\n"
    assert bool(run(place + body, np.zeros(4 * THREADS, np.int32), grid=3, order=order).races) is races


# A program stores data and then a flag; the next one waits for the flag and reads the data. %d0 data, %d1 flags, by
# program. Program 0 waits for nobody.
PASS = """
mul.wide.u32 %d2, %r9, 4;
add.s64 %d3, %d0, %d2;
add.s64 %d4, %d1, %d2;
mov.b32 %r2, 0;
setp.eq.u32 %p1, %r9, 0;
@%p1 bra $store;
@!%p0 bra $store;
$wait:
{read} %r1, [%d4-4];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra $wait;
{acquire}
ld.global.b32 %r2, [%d3-4];
$store:
add.s32 %r2, %r2, 5;
@%p0 st.global.b32 [%d3], %r2;
{release}
mov.b32 %r3, 1;
@%p0 {write} [%d4], %r3;
"""
RELAXED = {"read": "ld.relaxed.gpu.global.b32", "write": "st.relaxed.gpu.global.b32"}
VOLATILE = {"read": "ld.volatile.global.b32", "write": "st.volatile.global.b32"}
STRONG = {"read": "ld.acquire.gpu.global.b32", "write": "st.release.gpu.global.b32"}
FENCES = {"acquire": "fence.acq_rel.gpu;", "release": "@%p0 fence.acq_rel.gpu;"}
NONE = {"acquire": "", "release": ""}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("parts", "races"),
    [
        (STRONG | NONE, False),
        (RELAXED | FENCES, False),
        (VOLATILE | FENCES, False),
        (VOLATILE | {"acquire": "membar.gl;", "release": "membar.gl;"}, False),
        (RELAXED | NONE, True),
        (VOLATILE | NONE, True),
        (RELAXED | FENCES | {"release": ""}, True),
        (RELAXED | FENCES | {"acquire": ""}, True),
        (VOLATILE | {"acquire": "membar.cta;", "release": "membar.cta;"}, True),
        (STRONG | NONE | {"write": "st.release.cta.global.b32"}, True),
        (STRONG | NONE | {"write": "st.relaxed.gpu.global.b32"}, True),
        (STRONG | NONE | {"write": "st.global.b32"}, True),
        (STRONG | NONE | {"read": "ld.global.b32"}, True),
    ],
)
def test_flags_order_programs_only_by_release_and_acquire(parts, races, order):
    """The chain ends in every order, with the right sums; only what orders its data is free of races."""
    data, flags = np.zeros(4, np.int32), np.zeros(4, np.int32)
    report = run(PLACE + PASS.format(**parts), data, flags, grid=4, order=order)
    assert data.tolist() == [5, 10, 15, 20]
    assert flags.tolist() == [1] * 4
    assert {race.space for race in report.races} <= {"global"}
    assert bool(report.races) is races


def test_what_comes_after_a_release_is_not_published_by_it():
    late = PASS.format(**STRONG, **NONE) + "add.s32 %r2, %r2, 1;\n@%p0 st.global.b32 [%d3], %r2;"
    for order in ORDERS:
        assert run(PLACE + late, np.zeros(4, np.int32), np.zeros(4, np.int32), grid=4, order=order).races


def test_a_thread_that_releases_alone_needs_a_barrier_for_the_data_of_others():
    """All threads store, the first takes a ticket; who has the last ticket reads what all have stored."""
    body = """
    mad.lo.u32 %r1, %r9, 64, %r0;
    mad.wide.u32 %d2, %r1, 4, %d0;
    st.global.b32 [%d2], %r1;
    {}
    @%p0 atom.acq_rel.gpu.global.add.u32 %r2, [%d1], 1;
    @%p0 st.shared.b32 [0], %r2;
    bar.sync 0;
    ld.shared.b32 %r2, [0];
    setp.eq.u32 %p1, %r2, 2;
    mad.wide.u32 %d2, %r0, 4, %d0;
    @%p1 ld.global.b32 %r3, [%d2];
    @%p1 ld.global.b32 %r3, [%d2+256];
    @%p1 ld.global.b32 %r3, [%d2+512];
    """
    for order in ORDERS:
        for barrier, races in (("bar.sync 0;", False), ("", True)):
            data = np.full(3 * THREADS, -1, np.int32)
            report = run(
                PLACE + body.format(barrier), data, np.zeros(1, np.int32), grid=3, shared=16, order=order
            )  # fmt: skip
            assert bool(report.races) is races


LOCK = """
$take:
@%p0 atom.acquire.gpu.global.cas.b32 %r1, [%d1], 0, 1;
setp.ne.b32 %p1, %r1, 0;
and.pred %p1, %p1, %p0;
@%p1 bra $take;
@%p0 ld.global.b32 %r2, [%d0];
@%p0 add.s32 %r2, %r2, %r9;
@%p0 st.global.b32 [%d0], %r2;
{}
mov.b32 %r3, 0;
@%p0 {} [%d1], %r3;
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("release", "races"),
    [
        (("", "st.release.gpu.global.b32"), False),
        (("@%p0 membar.gl;", "st.volatile.global.b32"), False),
        (("", "st.volatile.global.b32"), True),
    ],
)
def test_a_spin_lock_orders_what_it_guards_if_it_is_released(release, races, order):
    total, lock = np.zeros(1, np.int32), np.zeros(1, np.int32)
    body = PLACE + "mov.b32 %r1, 0;\n" + LOCK.format(*release)
    report = run(body, total, lock, grid=5, order=order)
    assert (total[0], lock[0]) == (10, 0)
    assert bool(report.races) is races


WAIT = """
setp.eq.u32 %p1, %r9, {};
@!%p1 bra $go;
$wait:
{} %r1, [%d0];
setp.eq.u32 %p2, %r1, 0;
@%p2 bra $wait;
$go:
"""


@pytest.mark.parametrize("read", ["ld.acquire.gpu.global.b32", "ld.volatile.global.b32", "ld.global.b32"])
def test_a_program_may_wait_for_a_later_one(read):
    body = PLACE + WAIT.format(0, read) + "mov.b32 %r2, 1;\n@%p0 st.release.gpu.global.b32 [%d0], %r2;"
    flag = np.zeros(1, np.int32)
    report = run(body, flag, grid=3)
    assert flag[0] == 1
    assert report.instructions["ret"] == 3
    assert report.steps == sum(report.instructions.values())


def test_programs_that_wait_for_nothing_are_stopped_where_they_wait():
    with pytest.raises(PtxError, match="waits in a loop for a value from another program") as caught:
        run(PLACE + WAIT.format(1, "ld.acquire.gpu.global.b32"), np.zeros(1, np.int32), grid=3)
    assert caught.value.instruction == "ld.acquire.gpu.global.b32 %r1, [%d0]"
    assert caught.value.program == (1, 0, 0)


def test_warps_may_wait_for_each_other():
    """The first warp spins for the second, which comes later in the code."""
    body = "mov.b32 %r2, 1;\nsetp.lt.u32 %p1, %r0, 32;\n@!%p1 bra $go;\n$wait:\nld.volatile.global.b32 %r1, [%d0];\n"
    body += "setp.eq.u32 %p2, %r1, 0;\n@%p2 bra $wait;\nret;\n$go:\nst.volatile.global.b32 [%d0], %r2;"
    for order in ORDERS:
        flag = np.zeros(1, np.int32)
        run(body, flag, order=order)
        assert flag[0] == 1


# Whether a race matters


def test_a_race_whose_order_decides_changes_the_named_array_and_leaves_all_as_they_were():
    body = PLACE + "ld.param.b64 %d0, [k_param_0];\nld.param.b64 %d1, [k_param_1];\n@%p0 st.global.b32 [%d0], %r9;\n"
    body += "mov.b32 %r1, 7;\n@%p0 st.global.b32 [%d1], %r1;"
    text = make_kernel("mov.u32 %r0, %tid.x;\n" + body, ["u64", "u64"])
    last, same = np.full(1, -1, np.int32), np.full(1, -2, np.int32)
    assert outputs_differ(text, 4, [last, same]) == ["k_param_0"]
    assert outputs_differ(text, 1, {"k_param_0": last, "k_param_1": same}) == []
    assert (last[0], same[0]) == (-1, -2)


def test_a_replica_that_reads_late_does_not_matter_unless_it_writes():
    """All threads read a value, and store it plus one in place: one of them, or all, which is wrong."""
    for who, expected in (("@%p0", []), ("", ["k_param_0"])):
        text = make_kernel(
            "mov.u32 %r0, %tid.x;\nld.param.b64 %d0, [k_param_0];\nsetp.eq.u32 %p0, %r0, 0;\n"
            f"ld.global.b32 %r1, [%d0];\nadd.s32 %r1, %r1, 1;\n{who} st.global.b32 [%d0], %r1;",
            ["u64"],
        )
        assert outputs_differ(text, 1, [np.zeros(1, np.int32)]) == expected


@pytest.mark.parametrize(("barrier", "expected"), [(True, []), (False, ["out"])])
def test_a_forgotten_barrier_of_a_compiled_kernel_matters(barrier, expected):
    constants = {"N": 256, "LAG": 3, "BARRIER": barrier}
    compiled = compile_once(kernels.lag_kernel, pointers("x scratch out"), constants)
    arguments = {"x": normal(256), "scratch": blank(256), "out": blank(256)}
    assert outputs_differ(compiled, 1, arguments) == expected
    assert np.isnan(arguments["out"]).all()
