"""An Ada multiprocessor does a 64th as much float64 as float32: no loop of a kernel has any, in machine code."""

import os
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted"),
]


SLOW = ("float64", "convert64")


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_no_loop_does_float64_arithmetic(phase, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    from time_model.ada import kind_of
    from time_model.designs import Model, list_launches

    model, found = Model(), {}
    for launch in list_launches((2, 300, 64), phase):
        _, code, _ = model.compile(launch)
        looped = sorted(set().union(*(loop.body for loop in code.loops)))
        slow = [code.instructions[i].opcode for i in looped if kind_of(code.instructions[i].opcode) in SLOW]
        if slow:
            found[launch.name] = slow
    assert found == {}
