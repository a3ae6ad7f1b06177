"""Races between threads and between programs, on snippets and on faults planted into compiled kernels."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute, list_unknown
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import THREADS, run

RAW, WAR, WAW = "read after write", "write after read", "write after write"
SHARED = "shl.b32 %r1, %r0, 2;\n"


def kinds(report):
    return sorted((race.space, race.kind) for race in report.races)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # from one warp to the other
        ("st.shared.b32 [%r1], %r0;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];", [RAW]),
        ("st.shared.b32 [%r1], %r0;\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];", [RAW]),
        ("st.shared.b32 [%r1], %r0;\nbar.sync 0;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];", []),
        # within a warp
        ("st.shared.b32 [%r1], %r0;\nxor.b32 %r2, %r1, 4;\nld.shared.b32 %r3, [%r2];", [RAW]),
        ("st.shared.b32 [%r1], %r0;\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 4;\nld.shared.b32 %r3, [%r2];", []),
        # a write into what others still read
        ("ld.shared.b32 %r3, [%r1];\nxor.b32 %r2, %r1, 4;\nst.shared.b32 [%r2], %r0;", [WAR]),
        ("ld.shared.b32 %r3, [%r1];\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 4;\nst.shared.b32 [%r2], %r0;", []),
        ("ld.shared.b32 %r3, [%r1];\nbar.warp.sync -1;\nxor.b32 %r2, %r1, 128;\nst.shared.b32 [%r2], %r0;", [WAR]),
        ("ld.shared.b32 %r3, [0];\nst.shared.b32 [%r1], %r0;", [WAR]),  # broadcast: the writer read it too
        ("ld.shared.b32 %r3, [0];\nbar.sync 0;\nst.shared.b32 [%r1], %r0;", []),
        # writes to one place
        ("st.shared.b32 [0], %r0;", [WAW]),
        ("mov.b32 %r3, 5;\nst.shared.b32 [0], %r3;", []),  # all the same value
        ("st.shared.b32 [%r1], %r0;\nxor.b32 %r2, %r1, 128;\nst.shared.b32 [%r2], %r0;", [WAW]),
        # own data, and atomics
        ("st.shared.b32 [%r1], %r0;\nld.shared.b32 %r3, [%r1];\nst.shared.b32 [%r1], %r3;", []),
        ("red.shared.add.s32 [0], %r0;\nred.shared.add.s32 [0], %r0;", []),
        ("red.shared.add.s32 [0], %r0;\nld.shared.b32 %r3, [0];", [RAW]),
        # bytes beside each other
        ("cvt.u16.u32 %h1, %r0;\nst.shared.b8 [%r0], %h1;\nld.shared.u8 %h2, [%r0];", []),
        ("cvt.u16.u32 %h1, %r0;\nst.shared.b8 [%r0], %h1;\nxor.b32 %r2, %r0, 1;\nld.shared.u8 %h2, [%r2];", [RAW]),
    ],
)  # fmt: skip
def test_races_in_shared_memory(body, expected):
    report = run(SHARED + body, shared=4 * THREADS)
    assert kinds(report) == [("shared", kind) for kind in expected]


PLACE = "mov.u32 %r9, %ctaid.x;\nmad.lo.u32 %r1, %r9, 64, %r0;\nmad.wide.u32 %d1, %r1, 4, %d0;\n"

TICKET = """
st.global.b32 [%d1], %r1;
bar.sync 0;
red.acq_rel.{}.global.add.s32 [%d0+768], 1;
ld.global.b32 %r2, [%d0];
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("st.global.b32 [%d1], %r0;", []),
        ("st.global.b32 [%d1], %r0;\nld.global.b32 %r2, [%d1];", []),
        ("ld.global.b32 %r2, [%d0];", []),
        ("ld.global.b32 %r2, [%d1+256];\nadd.s32 %r2, %r2, 5;\nst.global.b32 [%d1], %r2;", [WAR]),
        ("st.global.b32 [%d1], %r1;\nbar.sync 0;\nld.global.b32 %r2, [%d0];", [RAW]),
        ("mad.wide.u32 %d2, %r0, 4, %d0;\nst.global.b32 [%d2], %r1;", [WAW]),
        ("red.global.add.s32 [%d0], %r0;", []),
        # other programs' reads stay known when a program reads again behind a barrier
        (
            "ld.global.b32 %r2, [%d0];\nbar.sync 0;\nld.global.b32 %r3, [%d0];\nbar.sync 0;\n"
            "setp.eq.u32 %p1, %r1, 128;\nadd.s32 %r2, %r2, 5;\n@%p1 st.global.b32 [%d0], %r2;",
            [WAR],
        ),
        # a ticket that orders programs, and one that orders only the threads of a block
        (TICKET.format("gpu"), []),
        (TICKET.format("cta"), [RAW]),
    ],
)
def test_races_between_programs(body, expected):
    report = run(PLACE + body, np.zeros(4 * THREADS, np.int32), grid=3)
    assert kinds(report) == [("global", kind) for kind in expected]


def test_a_race_says_where_and_who():
    body = "mov.b32 %r9, 4;\n" + SHARED + "st.shared.b32 [%r1], %r0;\nxor.b32 %r2, %r1, 128;\nld.shared.b32 %r3, [%r2];"
    (race,) = run(body, shared=4 * THREADS).races
    assert race.instruction == "ld.shared.b32 %r3, [%r2]"
    assert race.other == "st.shared.b32 [%r1], %r0"
    assert race.line == race.other_line + 2
    assert race.threads == (0, 32)
    assert race.count == THREADS
    assert "no barrier between them" in str(race)
    with pytest.raises(PtxError, match="race: shared read after write") as caught:
        run(body, shared=4 * THREADS, strict=True)
    assert caught.value.line == race.line


@pytest.mark.parametrize(("sem", "expected"), [("acq_rel", []), ("relaxed", ["read after write"])])
def test_atomics_order_programs_only_with_acquire_and_release(sem, expected):
    compiled = compile_once(
        kernels.last_program_kernel,
        {**pointers("x partial out"), "counter": "*i32"},
        {"PROGRAMS": 4, "BLOCK": 128, "SEM": sem},
    )
    x, partial, counter, out = normal(4, 128), blank(4), np.zeros(1, np.int32), blank(1)
    report = execute(compiled, 4, {"x": x, "partial": partial, "counter": counter, "out": out})
    assert kinds(report) == [("global", kind) for kind in expected]
    assert abs(out[0] - x.astype(np.float64).sum()) < 512 * 8 * 2.0**-24


def test_a_lag_through_memory_needs_its_barrier_and_the_report_names_the_line():
    x, outs = normal(256), []
    for barrier in (True, False):
        constants = {"N": 256, "LAG": 3, "BARRIER": barrier}
        compiled = compile_once(kernels.lag_kernel, pointers("x scratch out"), constants)
        scratch, out = blank(256), blank(256)
        outs.append((execute(compiled, 1, [x, scratch, out]).races, out))
    (silent, right), (races, _) = outs
    assert silent == []
    assert (right == np.concatenate([np.zeros(3), x[:-3]])).all()
    assert {(race.space, race.kind) for race in races} == {("global", "read after write")}
    lines = Path(kernels.__file__).read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "tl.load(scratch" in text)
    assert all(race.source is not None and race.source.line == line for race in races)
    assert "kernels.py" in str(races[0])
    assert races[0].place == "byte 4 of 'scratch'"  # thread 2 reads what thread 0 stored


# Faults planted into the PTX of a compiled kernel: what is replaced, and what has to notice.


def mutate(compiled, pattern, replacement, count=1):
    text, changed = re.subn(pattern, replacement, compiled.ptx, count=count)
    assert changed, f"{pattern} does not occur"
    return dataclasses.replace(compiled, ptx=text)


def scan_columns():
    compiled = compile_once(
        kernels.scan_columns_kernel, pointers("ar ai br bi hr hi"), {"T": 32, "M": 8, "REVERSE": False}
    )
    inputs = [normal(32, 8, seed=seed, scale=0.6) for seed in range(4)]
    return compiled, [*inputs, blank(32, 8), blank(32, 8)]


def run_scan(compiled, arguments):
    report = execute(compiled, 1, arguments)
    return report, arguments[-2].copy()


def test_every_dropped_barrier_is_a_race():
    compiled, arguments = scan_columns()
    assert execute(compiled, 1, arguments).races == []
    barriers = list(re.finditer(r"bar\.sync\s+0;", compiled.ptx))
    assert barriers
    for barrier in barriers:
        broken = dataclasses.replace(compiled, ptx=compiled.ptx[: barrier.start()] + compiled.ptx[barrier.end() :])
        assert {race.space for race in execute(broken, 1, arguments).races} == {"shared"}


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"(shfl\.sync\.\w+\.b32 \s*%r\d+, %r\d+, )(\d+)", lambda found: found[1] + str(int(found[2]) ^ 3)),
        (r"neg\.f32", "mov.b32"),
        (r"fma\.rn\.f32 (\s*%r\d+), (%r\d+), (%r\d+), (%r\d+)", r"fma.rn.f32 \1, \2, \4, \3"),
    ],
    ids=["shuffle distance", "sign", "operands"],
)
def test_a_wrong_instruction_gives_wrong_numbers(pattern, replacement):
    compiled, arguments = scan_columns()
    _, right = run_scan(compiled, arguments)
    _, wrong = run_scan(mutate(compiled, pattern, replacement), arguments)
    assert not np.allclose(right, wrong, rtol=1e-3, equal_nan=True)


def test_a_store_one_element_too_far_is_refused_with_its_source_line():
    compiled, arguments = scan_columns()
    broken = mutate(compiled, r"(st\.global[\w.]* \[ ?%rd\d+ \+ )0", r"\g<1>1024")
    with pytest.raises(PtxError, match="write to global memory out of range") as caught:
        execute(broken, 1, arguments)
    assert caught.value.source is not None
    assert Path(caught.value.source.file) == Path(kernels.__file__)
    assert "'hr'" in str(caught.value)


def test_a_shifted_store_is_misaligned():
    compiled, arguments = scan_columns()
    with pytest.raises(PtxError, match="misaligned access to global memory"):
        execute(mutate(compiled, r"(st\.global[\w.]* \[ ?%rd\d+ \+ )0", r"\g<1>2"), 1, arguments)


def test_a_dropped_definition_is_an_uninitialised_register():
    compiled, arguments = scan_columns()
    with pytest.raises(PtxError, match="uninitialised register"):
        execute(mutate(compiled, r"mov\.u32 \s*%r\d+, %tid\.x;", ""), 1, arguments)


def test_unknown_opcodes_are_listed_without_executing():
    compiled, _ = scan_columns()
    assert list_unknown(compiled) == []
    assert list_unknown(mutate(compiled, r"fma\.rn\.f32", "fma.xx.f32")) == ["fma.xx.f32"]


def test_an_unknown_opcode_is_named_with_its_line():
    compiled, arguments = scan_columns()
    with pytest.raises(PtxError, match=r"unknown instruction fma\.xx\.f32") as caught:
        execute(mutate(compiled, r"fma\.rn\.f32", "fma.xx.f32"), 1, arguments)
    assert "fma.xx.f32" in compiled.ptx.replace("fma.rn", "fma.xx").splitlines()[caught.value.line - 1]


def test_a_missing_wait_leaves_the_copy_out():
    signature = {**pointers("a b c"), "K": "i32"}
    constants = {"M": 32, "N": 32, "BK": 32, "PRECISION": "tf32"}
    compiled = compile_once(kernels.dot_kernel, signature, constants, stages=3, divisible=("K",))
    a, b, c = normal(32, 96), normal(96, 32, seed=1), blank(32, 32)
    assert execute(compiled, 1, [a, b, c, 96]).races == []
    assert np.isfinite(c).all()
    report = execute(mutate(compiled, r"cp\.async\.wait_group\s+\d+;", "", count=0), 1, [a, b, c, 96])
    assert np.isnan(c).any()  # the places that copies were under way to
    assert report.instructions["cp.async.wait_group"] == 0
