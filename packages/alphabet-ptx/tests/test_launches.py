"""One compiled kernel in many launches: a launch leaves nothing behind that the next one could see."""

import threading

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_ptx.machines import KEPT_PROGRAMS
from alphabet_testing.ptx import kernels
from alphabet_testing.ptx.kernels import blank, compile_once, normal, pointers
from alphabet_testing.ptx.snippets import THREADS, make_kernel, run

# Every program counts its block in memory; the last to come, by the size of the grid, writes the number of programs.
COUNT = """
mov.u32 %r1, %nctaid.x;
mov.u32 %r2, %ctaid.x;
mad.wide.u32 %d1, %r2, 4, %d0;
setp.eq.u32 %p1, %r0, 0;
@%p1 st.global.b32 [%d1], %r1;
"""


def compile_add():
    return compile_once(kernels.add_kernel, {**pointers("x y out"), "n": "i32"}, {"BLOCK": 256})


@pytest.mark.parametrize("grids", [(1, 3, 2), (3, 1)])
def test_grids_of_different_sizes_follow_each_other(grids):
    for programs in grids:
        found = np.zeros(4, np.uint32)
        assert run(COUNT, found, grid=programs).races == []
        assert found.tolist() == [programs] * programs + [0] * (4 - programs)


def test_launches_count_their_own_steps_and_races():
    body = "st.global.b32 [%d0], %r0;"  # every thread writes its number to one place
    first, second = (run(body, np.zeros(1, np.uint32)) for _ in range(2))
    assert first.steps == second.steps
    assert first.instructions == second.instructions
    assert first.races == second.races
    assert len(first.races) == 1


def test_a_fault_leaves_nothing_for_the_next_launch():
    compiled = compile_add()
    x, y, out = normal(200), normal(200, seed=1), blank(200)
    with pytest.raises(PtxError, match="out of range"):
        execute(compiled, 1, [x, y, out[:100], 200])
    assert execute(compiled, 1, [x, y, out, 200]).races == []
    assert (out == x + y).all()


def test_registers_and_shared_memory_start_without_values():
    body = "setp.eq.u32 %p1, %r9, 1;\n@!%p1 bra skip;\nskip:\nmov.b32 %r9, 1;"
    for _ in range(2):
        with pytest.raises(PtxError, match="uninitialised register %r9"):
            run(body)
    body = "ld.shared.b32 %r1, [0];\nbar.sync 0;\nmov.b32 %r2, 7;\nst.shared.b32 [0], %r2;\nst.global.b32 [%d0], %r1;"
    for _ in range(2):
        found = np.zeros(1, np.uint32)
        run(body, found, shared=16)
        assert found[0] == 0xFFFFFFFF


def test_variables_of_a_module_start_with_their_values():
    kernel = make_kernel(
        "ld.param.b64 %d0, [k_param_0];\nmov.u64 %d1, counter;\nld.global.b32 %r1, [%d1];\nst.global.b32 [%d0], %r1;\n"
        "mov.b32 %r2, 9;\nst.global.b32 [%d1], %r2;",
        ["u64"],
    ).replace(".visible", ".global .align 4 .b32 counter;\n.visible")
    for length in (1, 300):  # wherever the array comes to lie
        found = np.ones(length, np.uint32)
        execute(kernel, 1, [found])
        assert found[0] == 0


def test_more_kernels_than_are_kept():
    for round_ in range(2):
        for number in range(KEPT_PROGRAMS + 3):
            found = np.zeros(1, np.uint32)
            run(f"mov.b32 %r1, {number + 1};\nst.global.b32 [%d0], %r1;", found)
            assert found[0] == number + 1, round_


def test_threads_may_execute_one_kernel_at_the_same_time():
    compiled, failures = compile_add(), []

    def launch(seed):
        for _ in range(5):
            x, y, out = normal(700, seed=seed), normal(700, seed=seed + 100), blank(700)
            execute(compiled, 3, [x, y, out, 700])
            if not (out == x + y).all():
                failures.append(seed)

    threads = [threading.Thread(target=launch, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_parameter_that_is_not_there_is_refused():
    for address in ("k_param_1", "k_param_0+8", "k_param_0-4"):
        with pytest.raises(PtxError, match="reads beyond the parameters"):
            execute(make_kernel(f"ld.param.b64 %d0, [{address}];", ["u64"]), 1, [np.zeros(THREADS)])
