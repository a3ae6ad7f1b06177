"""How often each loop of a launch runs: some of its programs are executed as PTX, and their instructions counted.

A loop of the machine code is that of the PTX which has the same place and nesting. Where the assembler has made another
number of loops, nothing is guessed: `LoopsDifferError` names the kernel.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from alphabet_ptx import CompiledKernel
from alphabet_ptx.arguments import as_array, lay_out, pack_parameters
from alphabet_ptx.execution import STEP_LIMIT
from alphabet_ptx.grid import run_grid
from alphabet_ptx.instructions import BRANCHES, EXITS
from alphabet_ptx.machines import borrow_machine
from alphabet_ptx.modes import USUAL
from alphabet_ptx.parse import parse
from alphabet_ptx.program import Program

from time_model.flow import Loop, Step, find_loops
from time_model.sass import Code

SAMPLES = 6  # programs of a launch that are executed, evenly spread


class LoopsDifferError(Exception):
    """The loops of a kernel's machine code are not those of its PTX."""


def count_trips(code: Code, compiled: CompiledKernel, grid: tuple[int, ...], given: Mapping[str, Any]) -> list[float]:
    """How often a program runs each loop of its machine code in all: the mean over some programs of the launch."""
    program = parse(compiled.ptx)
    loops = find_ptx_loops(compiled.ptx)
    if [loop.depth for loop in loops] != [loop.depth for loop in code.loops]:
        raise LoopsDifferError(
            f"{compiled.name}: {len(loops)} loops in the PTX, nested {[loop.depth for loop in loops]}, and "
            f"{len(code.loops)} in the machine code, nested {[loop.depth for loop in code.loops]}"
        )
    if not loops:
        return []
    hits = count_hits(compiled, program, grid, given)
    return [hits[loop.header] for loop in loops]


@lru_cache(maxsize=64)
def find_ptx_loops(ptx: str) -> list[Loop]:
    """The loops of a kernel as PTX has them."""
    program = parse(ptx)
    steps = []
    for each in program.instructions:
        jumps = each.opcode in BRANCHES
        target = program.labels[each.operands[0].name] if jumps else None
        steps.append(Step(target, falls=each.guard is not None or not (jumps or each.opcode in EXITS)))
    return find_loops(steps)


def count_hits(
    compiled: CompiledKernel, program: Program, grid: tuple[int, ...], given: Mapping[str, Any]
) -> list[float]:
    """How often a program executes each instruction: the mean over `SAMPLES` of them, or over all if they wait."""
    columns, rows, layers = sizes = (*grid, 1, 1)[:3]
    count = columns * rows * layers
    kinds = {name: kind for name, kind in compiled.signature.items() if kind != "constexpr"}
    values = {name: given[name] for name in kinds}
    arrays = {name: as_array(name, value, kinds[name]) for name, value in values.items()}
    with np.errstate(all="ignore"), borrow_machine(compiled.ptx, compiled.shared) as machine:
        placed = lay_out(machine.memory, {name: array for name, array in arrays.items() if array is not None})
        parameters = pack_parameters(program, values, placed, kinds)
        schedule = machine.schedule(1)
        schedule.launch(STEP_LIMIT)
        schedule.block.launch(sizes, parameters, strict=False, mode=USUAL)
        chosen = sorted({round(i * (count - 1) / max(1, SAMPLES - 1)) for i in range(SAMPLES)})
        for number in chosen:
            where = (number % columns, number // columns % rows, number // (columns * rows))
            if next(schedule.run(number, where), "ended") != "ended":  # it waits for another: all are needed
                schedule = machine.schedule(1)
                schedule.launch(STEP_LIMIT)
                schedule.block.launch(sizes, parameters, strict=False, mode=USUAL)
                run_grid(schedule, sizes)
                return [hit / count for hit in schedule.hits]
        return [hit / len(chosen) for hit in schedule.hits]
