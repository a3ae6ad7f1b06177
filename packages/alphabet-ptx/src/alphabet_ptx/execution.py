"""Execute a compiled kernel on the CPU, one block of the grid after another."""

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

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
from alphabet_ptx.compiling import CompiledKernel
from alphabet_ptx.datatypes import Array
from alphabet_ptx.descriptors import expand
from alphabet_ptx.errors import PtxError
from alphabet_ptx.grid import run_grid
from alphabet_ptx.instructions import find_pattern
from alphabet_ptx.limits import check_grid, check_shared
from alphabet_ptx.machine import Block
from alphabet_ptx.memory import POISON
from alphabet_ptx.modes import USUAL, Mode
from alphabet_ptx.parse import parse
from alphabet_ptx.program import Program
from alphabet_ptx.races import Race
from alphabet_ptx.schedule import Schedule

STEP_LIMIT = 10_000_000
# Bound programs that are kept for another launch, those used last; a large one takes a few megabytes.
KEPT_PROGRAMS = 32


@dataclass(frozen=True)
class Report:
    """The races that an execution found, and how many instructions it took.

    `steps` counts instructions as blocks execute them, once for all threads that run together; `instructions` counts
    them by opcode.
    """

    races: list[Race]
    steps: int
    instructions: Counter[str] = field(repr=False)


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
    """
    mode = Mode(order, rounding, seed)
    ptx = kernel if isinstance(kernel, str) else kernel.ptx
    with _without_collection():
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
    return run(ptx, sizes, values, arrays, kinds, shared=shared or 0, strict=strict, limit=limit, mode=mode)


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
) -> Report:
    """Run PTX over a grid: `values` in the order of the parameters, and `arrays`, the memory behind some of them."""
    program = parse(ptx)
    check_grid(program.name, sizes, limit)
    check_shared(program.name, program.target, _place_variables(program, "shared", shared)[1])
    with np.errstate(all="ignore"), _machine(ptx, shared) as schedule:
        block = schedule.block
        placed = lay_out(block.memory, {name: array for name, array in arrays.items() if array is not None})
        schedule.launch(limit)
        block.launch(sizes, pack_parameters(program, values, placed, kinds), strict=strict, mode=mode)
        run_grid(schedule, sizes)
        write_back(block.memory, placed)
        counts: Counter[str] = Counter()
        for instruction, hits in zip(program.instructions, schedule.hits, strict=True):
            if hits:
                counts[instruction.opcode] += hits
        return Report(races=list(block.races.values()), steps=schedule.steps, instructions=counts)


_idle: dict[tuple[str, int], Schedule] = {}
_idle_lock = Lock()


@contextmanager
def _machine(ptx: str, shared: int) -> Iterator[Schedule]:
    """A program bound to a block, new or from an earlier launch: binding takes longer than most launches.

    No other thread can take it meanwhile, and one that a fault stopped halfway is not used again.
    """
    key = (ptx, shared)
    with _idle_lock:
        schedule = _idle.pop(key, None)
    if schedule is None:
        program = parse(ptx)
        with _without_collection():
            shared_symbols, shared_size = _place_variables(program, "shared", shared)
            local_symbols, local_size = _place_variables(program, "local", 0)
            schedule = Schedule(Block(program, shared_symbols | local_symbols, shared=shared_size, local=local_size))
    yield schedule
    schedule.block.memory.allocate(())
    with _idle_lock:
        _idle[key] = schedule
        while len(_idle) > KEPT_PROGRAMS:
            del _idle[next(iter(_idle))]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause garbage collection: what follows makes thousands of objects that stay, and searching them takes as long."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _check_grid(grid: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = [int(grid)] if isinstance(grid, int | np.integer) else [int(size) for size in grid]
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise PtxError(f"grid must be one to three positive numbers; got {grid}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _place_variables(program: Program, space: str, dynamic: int) -> tuple[dict[str, int], int]:
    """Addresses of a block's variables from 0, the dynamic shared memory behind the others; and the size of all."""
    places, position = {}, 0
    variables = [variable for variable in program.variables if variable.space == space]
    for variable in sorted(variables, key=lambda variable: variable.size is None):
        position = -(-position // variable.align) * variable.align
        places[variable.name] = position
        position += variable.size or 0
    return places, position + dynamic


def list_unknown(kernel: CompiledKernel | str) -> list[str]:
    """The opcodes of a kernel that `execute` would refuse, found without executing it."""
    program = parse(kernel if isinstance(kernel, str) else kernel.ptx)
    return sorted({each.opcode for each in program.instructions if find_pattern(each.opcode) is None})
