"""Generated programs, right and wrong ones: at once they do what they do one after another, to the byte."""

from dataclasses import dataclass

import numpy as np
import pytest
from alphabet_testing.ptx.batches import assert_same, find_outcome
from alphabet_testing.ptx.snippets import make_kernel
from hypothesis import given, settings
from hypothesis import strategies as st

THREADS, PROGRAMS = 64, 5
CELLS = THREADS * PROGRAMS
# Places in an array of CELLS words: of the thread itself, of its neighbours across programs, of all programs.
PLACES = {
    "own": "mov.b32 %r10, %r2;",
    "mirrored": "sub.s32 %r10, 63, %r0;\nmad.lo.s32 %r10, %r1, 64, %r10;",
    "of the lane beside": "xor.b32 %r10, %r2, 1;",
    "of the warp beside": "xor.b32 %r10, %r2, 32;",
    "of the next thread": f"add.s32 %r10, %r2, 1;\nmin.s32 %r10, %r10, {CELLS - 1};",
    "of the program before": "sub.s32 %r10, %r2, 64;\nmax.s32 %r10, %r10, 0;",
    "the thread's": "mov.b32 %r10, %r0;",
    "the program's": "mov.b32 %r10, %r1;",
    "one of four": "and.b32 %r10, %r0, 3;\nmad.lo.s32 %r10, %r1, 4, %r10;",
    "beyond": "mad.lo.s32 %r10, %r1, 70, %r0;",
}
WHERE = "mul.wide.u32 %d10, %r10, 4;\nadd.s64 %d10, %d{array}, %d10;\n"
INSIDE = "and.b32 %r11, %r10, 63;\nshl.b32 %r11, %r11, 2;\nmov.b32 %r12, buffer;\nadd.s32 %r11, %r11, %r12;\n"
# %r20 is what a thread has computed so far.
ACTIONS = {
    "load": WHERE + "ld.global.b32 %r20, [%d10];",
    "store": WHERE + "st.global.b32 [%d10], %r20;",
    "store a constant": WHERE + "st.global.b32 [%d10], 77;",
    "load a byte": WHERE + "ld.global.u8 %h1, [%d10+1];\ncvt.u32.u16 %r20, %h1;",
    "add": WHERE + "red.global.add.u32 [%d10], %r20;",
    "add a float": WHERE + "cvt.rn.f32.u32 %r13, %r20;\nred.global.gpu.relaxed.add.f32 [%d10], %r13;",
    "exchange": WHERE + "mov.u32 %r14, 0;\natom.global.gpu.acq_rel.exch.b32 %r14, [%d10], %r20;",
    "take a ticket": WHERE + "atom.global.gpu.relaxed.add.u32 %r15, [%d10], 1;\nadd.u32 %r20, %r20, %r15;",
    "read what is volatile": WHERE + "ld.volatile.global.b32 %r20, [%d10];",
    "keep": INSIDE + "st.shared.b32 [%r11], %r20;",
    "fetch": INSIDE + "ld.shared.b32 %r20, [%r11];",
    "count in shared memory": INSIDE + "red.shared.add.u32 [%r11], 3;",
    "shuffle": "shfl.sync.bfly.b32 %r20, %r20, 5, 31, -1;",
    "meet": "bar.sync 0;",
    "meet the warp": "bar.warp.sync -1;",
    "compute": "mad.lo.s32 %r20, %r20, 5, %r2;",
    "divide": "sub.s32 %r16, %r1, 2;\ndiv.s32 %r20, %r2, %r16;",
}
# What decides whether an action happens, and how often it is repeated.
CONDITIONS = {
    "always": "setp.eq.u32 %p1, 0, 0;",
    "odd programs": "and.b32 %r17, %r1, 1;\nsetp.eq.u32 %p1, %r17, 1;",
    "the first warp": "setp.lt.u32 %p1, %r0, 32;",
    "some lanes": "and.b32 %r17, %r0, 3;\nsetp.eq.u32 %p1, %r17, 1;",
    "odd values": "and.b32 %r17, %r20, 1;\nsetp.eq.u32 %p1, %r17, 1;",
}
COUNTS = {"once": "mov.b32 %r18, 1;", "by program": "add.u32 %r18, %r1, 1;", "by thread": "and.b32 %r18, %r0, 3;"}


@dataclass(frozen=True)
class Statement:
    """An action in some array and place, under a condition, repeated."""

    action: str
    array: int
    place: str
    condition: str
    count: str

    def write(self, number):
        return f"""{CONDITIONS[self.condition]}
@!%p1 bra END_{number};
{COUNTS[self.count]}
AGAIN_{number}:
{PLACES[self.place]}
{ACTIONS[self.action].replace("{array}", str(self.array))}
sub.s32 %r18, %r18, 1;
setp.gt.s32 %p2, %r18, 0;
@%p2 bra AGAIN_{number};
END_{number}:"""


def write_kernel(statements):
    loads = [f"ld.param.b64 %d{i}, [k_param_{i}];" for i in range(3)]
    first = ["mov.u32 %r0, %tid.x;", "mov.u32 %r1, %ctaid.x;", "mad.lo.s32 %r2, %r1, 64, %r0;", "mov.b32 %r20, %r2;"]
    body = [statement.write(number) for number, statement in enumerate(statements)]
    return make_kernel("\n".join([*first, *loads, *body]), ["u64"] * 3, THREADS, 4 * THREADS)


VALUES = np.random.default_rng(0).integers(0, 1000, (3, CELLS)).astype(np.uint32)


def check(statements, together):
    text = write_kernel(statements)
    arrays = [np.empty(CELLS, np.uint32) for _ in range(3)]  # the same for both, since faults name addresses

    def run(together):
        for array, values in zip(arrays, VALUES, strict=True):
            array[:] = values
        return find_outcome(text, PROGRAMS, arrays, together=together)

    outcome = run(together)
    assert_same(outcome, run(1))
    return outcome


def choose(**fixed):
    choices = {"action": ACTIONS, "array": range(3), "place": PLACES, "condition": CONDITIONS, "count": COUNTS}
    return st.builds(Statement, **{name: st.sampled_from(list(each)) for name, each in choices.items()} | fixed)


likely = choose(condition=st.just("always"), count=st.sampled_from(["once", "once", "by program"]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(likely, min_size=1, max_size=6), st.sampled_from([None, 2, 3]))
def test_straight_programs_are_the_same_at_once(statements, together):
    check(statements, together)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(choose(), min_size=1, max_size=5), st.sampled_from([None, 2]))
def test_programs_that_diverge_are_the_same_at_once(statements, together):
    check(statements, together)


PRIVATE = st.sampled_from(["own", "mirrored", "of the lane beside", "one of four"])
harmless = st.sampled_from(["load", "compute", "shuffle", "fetch", "meet"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(choose(action=harmless, place=PRIVATE, condition=st.just("always")), max_size=4),
    st.sampled_from(["add", "add a float", "exchange"]),
)
def test_programs_that_only_add_to_common_places_are_the_same_at_once(statements, action):
    first = Statement("keep", 0, "own", "always", "once")
    barrier = Statement("meet", 0, "own", "always", "once")
    last = Statement(action, 2, "the thread's", "always", "once")
    reads = [Statement(**{**vars(each), "array": 0, "count": "once"}) for each in statements]
    assert check([first, barrier, *reads, last], None).together == PROGRAMS


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_in_every_place_is_the_same_at_once(action, place):
    """Alone, and between a store and a load of what it may have changed."""
    statement = Statement(action, 0, place, "always", "once")
    store, load = (Statement(each, 0, "own", "always", "once") for each in ("store", "load"))
    for statements in (
        [statement],
        [store, statement, Statement("store", 1, "own", "always", "once")],
        [statement, load],
    ):
        check(statements, None)
