"""The static model of time on hand-made machine code with known answers, and on a kernel whose loop runs more often."""

import os
import sys
from pathlib import Path

import pytest
import triton
import triton.language as tl

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(scope="module", autouse=True)
def bench():
    """The folder of the model's modules, which are no package's."""
    sys.path.insert(0, str(BENCH))
    yield
    sys.path.remove(str(BENCH))


def listing(*lines):
    """Machine code as nvdisasm lists it, from lines such as "FADD R0, R0, R1" and labels such as "LOOP:"."""
    numbers = iter(range(len(lines)))
    return "\n".join(
        f".{line}" if line.endswith(":") else f"        /*{next(numbers) * 16:04x}*/  {line} ;" for line in lines
    )


LOOP = (
    "MOV R1, RZ",
    "LDG.E R2, [R4.64]",
    "LOOP:",
    "FADD R3, R3, R2",
    "IADD3 R1, R1, 0x1, RZ",
    "ISETP.GE.AND P0, PT, R1, c[0x0][0x160], PT",
    "@!P0 BRA `(.LOOP)",
    "STG.E [R4.64], R3",
    "EXIT",
    "PAD:",
    "BRA `(.PAD)",
    "NOP",
)


def estimate_code(code, trips, *, programs=128, warps=4, registers=32, shared=0, **options):
    from time_model.cost import Shape, estimate
    from time_model.sass import parse
    from time_model.trips import Trips

    shape = Shape(programs, warps, registers, shared)
    return estimate(parse(listing(*code)), Trips(tuple(trips), tuple(trips)), shape, 0.0, **options)


def test_loops_are_found_with_their_nesting_and_cold_code_behind_the_end_is_none():
    from time_model.sass import parse

    code = parse(listing(
        "A:", "MOV R0, R0", "B:", "MOV R1, R1", "@P0 BRA `(.COLD)", "BACK:", "@P1 BRA `(.B)", "@P2 BRA `(.A)", "EXIT",
        "COLD:", "MOV R2, R2", "BRA `(.BACK)",
    ))  # fmt: skip
    assert [(loop.header, loop.depth, sorted(loop.body)) for loop in code.loops] == [
        (0, 0, [0, 1, 2, 3, 4, 6, 7]),
        (1, 1, [1, 2, 3, 6, 7]),
    ]


def test_a_loop_that_is_left_by_a_call_is_a_loop_and_functions_behind_the_kernel_are_left_out():
    from time_model.sass import parse

    text = listing("L:", "FADD R0, R0, R1", "@P0 CALL.REL.NOINC `(.OUT)", "BRA `(.L)", "OUT:", "EXIT")
    code = parse(text + "\n$__internal_0_$__cuda_sm20_div_rn_f64_full:\n" + listing("DFMA R0, R0, R0, R0", "RET"))
    assert len(code.instructions) == 4
    assert [sorted(loop.body) for loop in code.loops] == [[0, 1, 2]]


def test_instructions_are_counted_by_class_inside_and_outside_of_loops():
    found = estimate_code(LOOP, [10.0])
    assert found.instructions == {
        "control": (10.0, 1.0),
        "float32": (10.0, 0.0),
        "global": (0.0, 2.0),
        "integer": (20.0, 1.0),
    }
    assert found.requested == 2 * 4 * 32 * 4 * 128  # two accesses of four bytes by each thread of 128 programs
    assert found.units["float32"] == 10 * 4 * 32 / 128  # one program of four warps on every multiprocessor


def test_one_warp_waits_for_its_load_and_for_each_sum():
    from time_model.ada import LATENCIES
    from time_model.sass import parse
    from time_model.warp import count_cycles

    load = parse(listing("LDG.E R2, [R4.64]", "FADD R3, R3, R2", "EXIT"))
    assert count_cycles(load, [], [True] * 3) == LATENCIES["global"] + LATENCIES["float32"]
    chain = parse(listing("L:", *["FADD R3, R3, R2"] * 5, "@P0 BRA `(.L)", "EXIT"))
    ten, twenty = (count_cycles(chain, [trips], [True] * 7) for trips in (10.0, 20.0))
    assert twenty - ten == 10 * 5 * LATENCIES["float32"]


def test_copies_that_may_still_be_under_way_are_not_waited_for():
    from time_model.ada import LATENCIES
    from time_model.sass import parse
    from time_model.warp import count_cycles

    copy = ("LDGSTS.E [R0], [R2.64]", "LDGDEPBAR")
    waits = {missing: parse(listing(*copy, *copy, f"DEPBAR.LE SB0, {missing}", "EXIT")) for missing in ("0x0", "0x1")}
    all_, but_one = (count_cycles(code, [], [True] * 6) for code in waits.values())
    assert LATENCIES["global"] < but_one < all_


def test_float64_in_a_loop_moves_the_estimate_by_its_64th_rate():
    from time_model.ada import RATES

    assert RATES["float32"] / RATES["float64"] == 64
    single = [*LOOP[:3], *["FADD R8, R9, R10"] * 20, *LOOP[3:]]
    double = [*LOOP[:3], *["DADD R8, R10, R12"] * 20, *LOOP[3:]]
    fast, slow = (estimate_code(code, [100.0]) for code in (single, double))
    assert slow.bound == "float64"
    assert slow.units["float64"] == 100 * 20 * 4 * 16  # sixteen cycles of a multiprocessor for every warp
    assert slow.seconds > 10 * fast.seconds


def test_twice_the_trips_take_twice_the_time_of_the_loop():
    once, twice, thrice = (estimate_code(LOOP, [trips]).seconds for trips in (1000.0, 2000.0, 3000.0))
    assert twice - once == pytest.approx(thrice - twice)
    assert twice > 1.8 * once


def test_registers_and_shared_memory_limit_what_is_resident_and_so_the_waves():
    from time_model.cost import Shape

    assert Shape(1, 4, 32, 0).resident == 12  # 48 warps
    assert Shape(1, 4, 255, 0).resident == 2  # 65,536 registers
    assert Shape(1, 1, 16, 0).resident == 24
    assert Shape(1, 4, 32, 49 * 1024).resident == 2  # of 100 KB, one of which each program needs for itself
    few = estimate_code(LOOP, [100.0], programs=128 * 12)
    more = estimate_code(LOOP, [100.0], programs=128 * 12 + 1)
    assert (few.waves, more.waves) == (1, 2)
    assert more.seconds > few.seconds


def test_tensor_cores_special_functions_and_wide_loads_have_their_own_rates():
    from time_model.ada import unit_of

    assert unit_of("HMMA.1688.F32.TF32") == ("tensor", 8.0)
    assert unit_of("HMMA.16816.F32.BF16") == ("tensor", 8.0)
    assert unit_of("MUFU.RSQ") == ("special", 2.0)
    assert unit_of("LDG.E.128") == ("memory", 4.0)
    assert unit_of("F2F.F64.F32") == ("convert64", 16.0)
    with pytest.raises(ValueError, match="unknown shape"):
        unit_of("HMMA.SP.F32")


def test_what_does_not_fit_into_l2_is_bound_by_memory():
    from time_model.cost import Shape, estimate
    from time_model.sass import parse
    from time_model.trips import Trips

    code, shape = parse(listing(*LOOP)), Shape(128, 4, 32, 0)
    once = Trips((1.0,), (1.0,))
    inside, outside = (estimate(code, once, shape, 1e9, in_l2=known) for known in (True, False))
    assert outside.bound == "DRAM"
    assert outside.seconds == pytest.approx(1e9 / 1008e9)
    assert inside.seconds < outside.seconds / 100


@triton.jit
def loop_kernel(source, target, N, B: tl.constexpr):  # noqa: N803  as kernels name sizes
    total = tl.zeros((B,), tl.float32)
    for first in range(0, N, B):
        total += tl.load(source + first + tl.arange(0, B))
    tl.store(target + tl.program_id(0) * B + tl.arange(0, B), total)


def test_trips_are_those_of_the_executed_launch():
    import torch
    from alphabet_ptx import compile_kernel
    from time_model.sass import disassemble
    from time_model.trips import Trips, count_trips

    signature = {"source": "*fp32", "target": "*fp32", "N": "i32"}
    compiled = compile_kernel(loop_kernel, signature, {"B": 128}, warps=1, stages=1)
    code = disassemble(compiled.cubin)
    for trips in (0, 3, 17):
        given = {"source": torch.ones(2200), "target": torch.zeros(256), "N": 128 * trips}
        assert count_trips(code, compiled, (2,), given) == Trips((trips,), (trips,))


def test_the_longest_program_is_waited_for_once():
    from time_model.cost import Shape, estimate
    from time_model.sass import parse
    from time_model.trips import Trips

    code, shape = parse(listing(*LOOP)), Shape(128 * 36, 4, 32, 0)
    even, odd = (estimate(code, Trips((10.0,), (most,)), shape, 0.0) for most in (10.0, 10_000.0))
    assert even.waves == odd.waves == 3
    assert odd.bound == "serial"
    longest = estimate(code, Trips((10.0,), (10_000.0,)), Shape(1, 4, 32, 0), 0.0)
    assert longest.seconds < odd.seconds < 1.1 * longest.seconds


@triton.jit
def last_kernel(tickets, source, target, N, B: tl.constexpr):  # noqa: N803  as kernels name sizes
    if tl.atomic_add(tickets, 1) == tl.num_programs(0) - 1:
        total = tl.zeros((B,), tl.float32)
        for first in range(0, N, B):
            total += tl.load(source + first + tl.arange(0, B))
        tl.store(target + tl.arange(0, B), total)


def test_what_only_the_last_program_does_is_counted_once():
    import torch
    from alphabet_ptx import compile_kernel
    from time_model.sass import disassemble
    from time_model.trips import Trips, count_trips

    signature = {"tickets": "*i32", "source": "*fp32", "target": "*fp32", "N": "i32"}
    compiled = compile_kernel(last_kernel, signature, {"B": 128}, warps=1, stages=1)
    tensors = {"tickets": torch.zeros(1, dtype=torch.int32), "source": torch.ones(1024), "target": torch.zeros(128)}
    given = {**tensors, "N": 1024}
    found = count_trips(disassemble(compiled.cubin), compiled, (40,), given)
    assert found == Trips((8 / 40,), (8.0,))


def test_loops_that_the_assembler_has_changed_are_not_guessed():
    from alphabet_ptx import compile_kernel
    from time_model.sass import parse
    from time_model.trips import LoopsDifferError, count_trips

    signature = {"source": "*fp32", "target": "*fp32", "N": "i32"}
    compiled = compile_kernel(loop_kernel, signature, {"B": 128}, warps=1, stages=1)
    with pytest.raises(LoopsDifferError, match="1 loops in the PTX"):
        count_trips(parse(listing("EXIT")), compiled, (1,), {})


@pytest.mark.slow
def test_the_estimate_follows_the_launches_that_are_recorded():
    """Twice the sequences never take less, and a launch's kernel is named as it is recorded."""
    from time_model.designs import Model, estimate_designs, list_launches

    model, small, large = Model(), (128, 40, 16), (1024, 40, 16)
    rows = estimate_designs([small, large], model=model)
    for phase in ("inference", "step"):
        few, many = ([row for row in rows if (row.design, row.phase) == (d, phase)] for d in (small, large))
        assert [row.kernel for row in few] == [launch.name for launch in list_launches(small, phase)]
        assert not [row.problem for row in (*few, *many) if row.estimate is None]
        assert sum(row.estimate.seconds for row in many) > sum(row.estimate.seconds for row in few)
        assert all(b.estimate.seconds >= a.estimate.seconds for a, b in zip(few, many, strict=True))


def test_a_table_that_was_written_is_read_again(tmp_path):
    from time_model.cost import Shape, estimate
    from time_model.designs import Row
    from time_model.sass import parse
    from time_model.table import format_designs, format_launches, read_before, write
    from time_model.trips import Trips

    found = estimate(parse(listing(*LOOP)), Trips((10.0,), (10.0,)), Shape(4, 4, 32, 0), 0.0)
    rows = [Row((32, 512, 64), phase, 0, "loop_kernel", (4,), 4, 32, found) for phase in ("inference", "step")]
    rows.append(Row((32, 512, 64), "step", 1, "odd_kernel", (4,), 4, 32, None, "its loops differ"))
    nodes = {"inference": (5, 0), "step": (20, 3)}
    write(tmp_path / "before.csv", rows, nodes, "abc1234")
    before = read_before(tmp_path / "before.csv")
    assert before["commit"] == "abc1234"
    assert before["totals"][(32, 512, 64), "inference"] == (5, pytest.approx(found.seconds * 1e6 + 7.5, abs=1e-3))
    assert "no estimate: its loops differ" in "\n".join(format_launches(rows, (32, 512, 64)))
    assert "without 1 launches" in "\n".join(format_designs(rows, nodes))


def test_operators_of_a_family_are_counted_without_views_and_what_cannot_be_counted_is_named():
    import torch
    from time_model.families import Least, Operators, format_families

    with Operators() as operators:
        (torch.ones(4, 4).view(16)[2:] + 1.0).sum()
    assert operators.count == 3  # ones, add and sum
    found = [Least("gru", "fused", phase, problem="cuDNN's kernels") for phase in ("inference", "step")]
    found += [Least("tcn", name, "step", operators=count) for name, count in (("conv1d", 40), ("gemm", 60))]
    lines = format_families(found)
    assert lines[1].split() == ["gru", "inference", "0", "-", "compiled,", "fused"]
    assert [line.split()[3:6] for line in lines if line.startswith("tcn          step")] == [["conv1d", "40", "0.00"]]


@pytest.mark.slow
def test_a_longer_sequence_has_more_arithmetic_and_the_same_convolutions():
    from alphabet_audit.declare.declarations import read_declarations
    from alphabet_audit.measure.candidates import resolve_candidate
    from time_model.families import count_algorithm

    designs = read_declarations(None).designs
    candidate = resolve_candidate(designs, "same-width", "tcn", 16)
    short, long = (count_algorithm(designs, candidate, "conv1d", (4, length, 16), "step") for length in (64, 128))
    assert short[0] == long[0] > 20
    assert long[1] == pytest.approx(2 * short[1], rel=0.02)


@pytest.mark.slow
def test_times_of_a_gpu_are_written_beside_the_estimates_and_a_failure_is_a_row(tmp_path, monkeypatch):
    """Measuring itself needs a GPU; here the clock is stood in for."""
    import csv

    import kernel_times
    from time_model.designs import list_launches

    def refuse(launch):
        raise RuntimeError("CUDA error: an illegal memory access\nmore lines")

    design = (2, 40, 16)
    monkeypatch.setattr(kernel_times, "list_designs", lambda: [design])
    monkeypatch.setattr(kernel_times, "count_nodes", lambda: {"inference": (5, 0), "step": (20, 3)})
    monkeypatch.setattr(kernel_times, "time_launch", refuse)
    monkeypatch.setattr(kernel_times, "time_whole", lambda design, phase: 1e-4)
    kernel_times.main(tmp_path / "times.csv")
    with (tmp_path / "times.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for phase in ("inference", "step"):
        mine = [row for row in rows if row["phase"] == phase]
        assert [row["kernel"] for row in mine] == [*(each.name for each in list_launches(design, phase)), "whole call"]
        assert {row["us"] for row in mine[:-1]} == {"failed: CUDA error: an illegal memory access"}
        assert mine[-1]["us"] == "100.000"
        assert float(mine[-1]["us, estimated"]) > 7.5  # five nodes at least, and what the kernels take


@pytest.mark.slow
def test_times_are_refused_without_a_gpu():
    import subprocess

    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, str(BENCH / "kernel_times.py"), "times.csv"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "needs a CUDA device" in result.stderr
