"""Programs bound to blocks, kept for another launch: binding takes longer than most launches."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import Lock

from alphabet_ptx.batches import communicates_never
from alphabet_ptx.machine import Block, make_memory
from alphabet_ptx.parse import parse
from alphabet_ptx.program import Program
from alphabet_ptx.schedule import Schedule

# Programs that are kept, those used last, and the bytes of registers that they may take.
KEPT_PROGRAMS = 32
KEPT_BYTES = 256 << 20


class Machine:
    """A program, bound to a block of one program or of several at once; global memory is common to them."""

    def __init__(self, ptx: str, shared: int) -> None:
        self.program = parse(ptx)
        self.schedules: dict[int, Schedule] = {}
        shared_symbols, self.shared = _place_variables(self.program, "shared", shared)
        local_symbols, self.local = _place_variables(self.program, "local", 0)
        self.symbols = shared_symbols | local_symbols
        self.memory = make_memory(self.program)

    def schedule(self, programs: int) -> Schedule:
        """The program bound to a block of so many programs at once."""
        if programs not in self.schedules:
            with without_collection():
                sizes = {"shared": self.shared, "local": self.local}
                block = Block(self.program, self.symbols, **sizes, memory=self.memory, programs=programs)
                self.schedules[programs] = Schedule(block)
        return self.schedules[programs]

    @cached_property
    def stands_alone(self) -> bool:
        """Whether the programs of a grid may have nothing to do with each other."""
        return communicates_never(self.program)

    @property
    def nbytes(self) -> int:
        """The bytes that all registers take."""
        return sum(file.nbytes for each in self.schedules.values() for file in each.block.files.values())


_idle: dict[tuple[str, int], Machine] = {}
_idle_lock = Lock()


@contextmanager
def borrow_machine(ptx: str, shared: int) -> Iterator[Machine]:
    """A machine for a program, new or from an earlier launch.

    No other thread can take it meanwhile, and one that a fault stopped halfway is not used again.
    """
    key = (ptx, shared)
    with _idle_lock:
        machine = _idle.pop(key, None)
    if machine is None:
        machine = Machine(ptx, shared)
    yield machine
    machine.memory.allocate(())
    with _idle_lock:
        _idle[key] = machine
        while len(_idle) > KEPT_PROGRAMS or (
            len(_idle) > 1 and sum(each.nbytes for each in _idle.values()) > KEPT_BYTES
        ):
            del _idle[next(iter(_idle))]


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause garbage collection: what follows makes thousands of objects that stay, and searching them takes as long."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _place_variables(program: Program, space: str, dynamic: int) -> tuple[dict[str, int], int]:
    """Addresses of a block's variables from 0, the dynamic shared memory behind the others; and the size of all."""
    places, position = {}, 0
    variables = [variable for variable in program.variables if variable.space == space]
    for variable in sorted(variables, key=lambda variable: variable.size is None):
        position = -(-position // variable.align) * variable.align
        places[variable.name] = position
        position += variable.size or 0
    return places, position + dynamic
