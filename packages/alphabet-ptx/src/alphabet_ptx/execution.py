"""Execute a compiled kernel on the CPU: the blocks of the grid one after another, or as if they did."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from alphabet_ptx.arguments import (
    SCRATCH,
    SCRATCH_POINTERS,
    as_array,
    lay_out,
    name_arguments,
    pack_parameters,
    write_back,
)
from alphabet_ptx.batches import plan_batches
from alphabet_ptx.compiling import CompiledKernel
from alphabet_ptx.conflicts import BatchClock, Conflict, ConflictTracker
from alphabet_ptx.datatypes import Array
from alphabet_ptx.descriptors import expand
from alphabet_ptx.errors import PtxError
from alphabet_ptx.grid import run_grid
from alphabet_ptx.instructions import find_pattern
from alphabet_ptx.limits import check_grid, check_shared
from alphabet_ptx.machines import Machine, borrow_machine, without_collection
from alphabet_ptx.memory import POISON
from alphabet_ptx.modes import USUAL, Mode
from alphabet_ptx.parse import parse
from alphabet_ptx.races import Race
from alphabet_ptx.schedule import Schedule

STEP_LIMIT = 10_000_000


@dataclass(frozen=True)
class Report:
    """The races that an execution found, and how many instructions it took.

    `steps` counts instructions as blocks execute them, once for all threads that run together; `instructions` counts
    them by opcode. `together` is how many programs ran at once, 1 if they ran one after another (see `batches`).
    """

    races: list[Race]
    steps: int
    instructions: Counter[str] = field(repr=False)
    together: int = field(default=1, compare=False)


def execute(
    kernel: CompiledKernel | str,
    grid: int | Sequence[int],
    arguments: Mapping[str, object] | Sequence[object],
    *,
    shared: int | None = None,
    strict: bool = False,
    limit: int = STEP_LIMIT,
    order: str | int = "ascending",
    rounding: str = "ideal",
    seed: int = 0,
    reachable: Sequence[object] = (),
    together: int | None = None,
) -> Report:
    """Run `kernel`, or PTX text, over a grid of up to three dimensions.

    `arguments` come by name or in order, without the constants of the compilation: contiguous arrays (or torch tensors
    on the CPU), which are changed in place as the kernel changes them, and numbers. Faults raise `PtxError` and leave
    the arrays as they were. Races are reported, or raised if `strict`. PTX text needs `shared`, the bytes of dynamic
    shared memory, if it uses any. A kernel that takes more than `limit` steps raises `PtxError`, too.
    `order` is "ascending", "descending" or a seed: which programs, warps and threads run first; see `orders`.
    `rounding` "worst" makes approximate instructions and sums of tensor cores as wrong as they may be; see `modes`.
    `reachable` are further arrays, which the kernel reaches by addresses that it loads: those that the arrays have in
    the caller's memory (`tensor.data_ptr()`, `array.ctypes.data`).
    `together` is how many programs may run at once where they cannot tell (see `batches`): 1 is the definition, which
    runs one after another; the default is as many as are fast. Nothing but time depends on it, except which bits a
    NaN has that was made of two NaNs.
    """
    mode = Mode(order, rounding, seed)
    if together is not None and together < 1:
        raise PtxError(f"together must be a number of programs, 1 or more; got {together}")
    ptx = kernel if isinstance(kernel, str) else kernel.ptx
    with without_collection():
        program = parse(ptx)
    sizes = _check_grid(grid)
    if isinstance(kernel, str):
        kinds: dict[str, str] = {}
        names = [parameter.name for parameter in program.parameters]
        # Trailing parameters without an argument are Triton's scratch pointers.
        if isinstance(arguments, Mapping):
            names = names[: max((i + 1 for i, name in enumerate(names) if name in arguments), default=0)]
        else:
            names = names[: len(arguments)]
    else:
        kinds = {name: kind for name, kind in kernel.signature.items() if kind != "constexpr"}
        names = list(kinds)
        shared = kernel.shared if shared is None else shared
    values = name_arguments(arguments, names)
    if not isinstance(kernel, str):
        kernel.check_specialization(values)
        values, kinds = expand(values, kinds, kernel.descriptors, len(program.parameters) - SCRATCH_POINTERS)
    arrays = {name: as_array(name, value, kinds.get(name)) for name, value in values.items()}
    if not isinstance(kernel, str) and kernel.scratch:
        arrays[SCRATCH] = np.full(kernel.scratch * int(np.prod(sizes)), POISON, np.uint8)
    for i, value in enumerate(reachable):
        arrays[f"reachable[{i}]"] = array = as_array(f"reachable[{i}]", value, None)
        if array is None:
            raise PtxError(f"reachable must be arrays; reachable[{i}] is {type(value).__name__}")
    return run(
        ptx, sizes, values, arrays, kinds, shared=shared or 0, strict=strict, limit=limit, mode=mode, together=together
    )


def run(
    ptx: str,
    sizes: tuple[int, int, int],
    values: Mapping[str, object],
    arrays: Mapping[str, Array | None],
    kinds: Mapping[str, str],
    *,
    shared: int,
    strict: bool = False,
    limit: int = STEP_LIMIT,
    mode: Mode = USUAL,
    together: int | None = None,
) -> Report:
    """Run PTX over a grid: `values` in the order of the parameters, and `arrays`, the memory behind some of them."""
    placeable = {name: array for name, array in arrays.items() if array is not None}
    with np.errstate(all="ignore"), borrow_machine(ptx, shared) as machine:
        program = machine.program
        check_grid(program.name, sizes, limit)
        check_shared(program.name, program.target, machine.shared)
        placed = lay_out(machine.memory, placeable)
        parameters = pack_parameters(program, values, placed, kinds)
        speculate = together != 1 and mode.lockstep and machine.stands_alone
        done = _run_batches(machine, sizes, parameters, together, limit, mode) if speculate else None
        races: list[Race] = []
        at_once = done.block.programs if done is not None else 1
        if done is None:
            if speculate:
                lay_out(machine.memory, placeable)  # what the batches changed is dropped
            schedule = machine.schedule(1)
            schedule.launch(limit)
            schedule.block.launch(sizes, parameters, strict=strict, mode=mode)
            run_grid(schedule, sizes)
            done, races = schedule, list(schedule.block.races.values())
        write_back(machine.memory, placed)
        instructions: Counter[str] = Counter()
        for instruction, hits in zip(program.instructions, done.hits, strict=True):
            if hits:
                instructions[instruction.opcode] += hits
        return Report(races=races, steps=done.steps, instructions=instructions, together=at_once)


def _run_batches(
    machine: Machine,
    grid: tuple[int, int, int],
    parameters: Mapping[str, bytes],
    together: int | None,
    limit: int,
    mode: Mode,
) -> Schedule | None:
    """Run a grid in batches; returns a schedule that has counted the steps, or None if it has to run one by one."""
    batches = plan_batches(int(np.prod(grid)), int(np.prod(machine.program.threads)), most=together)
    schedules = {size: machine.schedule(size) for size in batches}
    first, hits = 0, [0] * len(machine.program.instructions)
    block = schedules[batches[0]].block
    clock = BatchClock(block.warps // block.programs, int(np.prod(grid)))
    shadow = ConflictTracker(len(machine.memory.bytes) // block.wide_cells["global"], clock, private=False)
    for schedule in schedules.values():
        schedule.launch(limit)
        schedule.hits = hits
        schedule.block.launch_batches(grid, parameters, mode, shadow)
    steps = 0
    try:
        for size in batches:
            schedules[size].steps = steps
            schedules[size].run_batch(first, grid)
            first, steps = first + size, schedules[size].steps
    except Conflict:
        return None
    schedules[batches[0]].steps = steps
    return schedules[batches[0]]


def _check_grid(grid: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = [int(grid)] if isinstance(grid, int | np.integer) else [int(size) for size in grid]
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise PtxError(f"grid must be one to three positive numbers; got {grid}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def list_unknown(kernel: CompiledKernel | str) -> list[str]:
    """The opcodes of a kernel that `execute` would refuse, found without executing it."""
    program = parse(kernel if isinstance(kernel, str) else kernel.ptx)
    return sorted({each.opcode for each in program.instructions if find_pattern(each.opcode) is None})
