"""How often each loop of a launch runs: some of its programs are executed as PTX, and their instructions counted.

Where programs meet in atomics all are executed: the last one to come may do what no other does.

A loop of the machine code is that of the PTX which has the same place and nesting. Where the assembler has made another
number of loops, nothing is guessed: `LoopsDifferError` names the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from alphabet_ptx import CompiledKernel, PtxError
from alphabet_ptx.arguments import as_array, lay_out, pack_parameters
from alphabet_ptx.execution import STEP_LIMIT
from alphabet_ptx.instructions import BRANCHES, EXITS
from alphabet_ptx.machines import borrow_machine
from alphabet_ptx.modes import USUAL
from alphabet_ptx.parse import parse
from alphabet_ptx.program import Program

from time_model.flow import Loop, Step, find_loops
from time_model.sass import Code

# Programs of a launch that are executed, evenly spread; the most if they meet in atomics.
SAMPLES, MOST = 6, 4096


class LoopsDifferError(Exception):
    """The loops of a kernel's machine code are not those of its PTX."""


@dataclass(frozen=True)
class Trips:
    """How often a program runs each loop in all: the mean over programs, and the most that one of them does."""

    mean: tuple[float, ...]
    most: tuple[float, ...]


def count_trips(code: Code, compiled: CompiledKernel, grid: tuple[int, ...], given: Mapping[str, Any]) -> Trips:
    """How often programs of a launch run each loop of their machine code."""
    program = parse(compiled.ptx)
    loops = find_ptx_loops(compiled.ptx)
    if [loop.depth for loop in loops] != [loop.depth for loop in code.loops]:
        raise LoopsDifferError(
            f"{compiled.name}: {len(loops)} loops in the PTX, nested {[loop.depth for loop in loops]}, and "
            f"{len(code.loops)} in the machine code, nested {[loop.depth for loop in code.loops]}"
        )
    if not loops:
        return Trips((), ())
    hits = count_hits(compiled, program, grid, given)[:, [loop.header for loop in loops]]
    return Trips(tuple(hits.mean(0).tolist()), tuple(hits.max(0).tolist()))


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
) -> np.ndarray:
    """How often each program (programs, instructions) executes each instruction, for `SAMPLES` programs or for all."""
    columns, rows, layers = sizes = (*grid, 1, 1)[:3]
    count = columns * rows * layers
    samples = min(count, MOST if "atom." in compiled.ptx else SAMPLES)
    chosen = sorted({round(i * (count - 1) / max(1, samples - 1)) for i in range(samples)})
    kinds = {name: kind for name, kind in compiled.signature.items() if kind != "constexpr"}
    values = {name: given[name] for name in kinds}
    arrays = {name: as_array(name, value, kinds[name]) for name, value in values.items()}
    hits = []
    with np.errstate(all="ignore"), borrow_machine(compiled.ptx, compiled.shared) as machine:
        placed = lay_out(machine.memory, {name: array for name, array in arrays.items() if array is not None})
        schedule = machine.schedule(1)
        schedule.launch(STEP_LIMIT * len(chosen))
        schedule.block.launch(sizes, pack_parameters(program, values, placed, kinds), strict=False, mode=USUAL)
        for number in chosen:
            where = (number % columns, number // columns % rows, number // (columns * rows))
            before = np.array(schedule.hits)
            if next(schedule.run(number, where), "ended") != "ended":
                raise PtxError(f"{compiled.name}: a program waits for others, and so its trips cannot be sampled")
            hits.append(np.array(schedule.hits) - before)
    return np.stack(hits)
