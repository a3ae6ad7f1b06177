"""One block of a grid, or several at once: their registers, and their threads in lockstep.

Every instruction becomes a `Step`: a function of the active threads (None: all of them). How threads diverge and join
again is decided in `schedule`.

`registers` has their operands. When several programs may run at once is said in `batches`; their
threads are numbered one program after another.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from alphabet_ptx.block_memory import LocalMemory, PendingCopies, SharedMemory
from alphabet_ptx.clock import Clock
from alphabet_ptx.conflicts import BatchClock, ConflictTracker
from alphabet_ptx.datatypes import WARP, Array, Mask, size_of
from alphabet_ptx.deferred import Deferred
from alphabet_ptx.errors import PtxError
from alphabet_ptx.memory import POISON, WIDEST, GlobalMemory, Memory
from alphabet_ptx.modes import USUAL, Mode
from alphabet_ptx.operands import special_registers
from alphabet_ptx.orders import Order
from alphabet_ptx.polls import LazyPolls, Polls
from alphabet_ptx.program import Immediate, Instruction, Program, Symbol, Variable
from alphabet_ptx.races import Race, Tracker
from alphabet_ptx.registers import Registers

Step = Callable[[Mask | None], None]
Binder = Callable[[Instruction, "Block"], Step]


class Unit:
    """A part of the machine that some instructions need, with a state of its own for each block."""

    def __init__(self, block: "Block") -> None:
        self.block = block

    def start(self) -> None:
        """Start a block, which knows nothing of the one before it."""

    def end(self) -> None:
        """End a block; raises PtxError if something is still under way that may not be."""


AnyUnit = TypeVar("AnyUnit", bound=Unit)


class Block(Registers):
    """The state of the block that is running, and what instructions are bound to."""

    def __init__(
        self,
        program: Program,
        symbols: Mapping[str, int],
        *,
        shared: int,
        local: int,
        memory: GlobalMemory,
        programs: int = 1,
    ) -> None:
        self.program = program
        self.programs = programs  # that run at once
        self.parameters: Mapping[str, bytes] = {}
        self.addressed = addressed_parameters(program)
        self.memory = memory
        self.size = int(np.prod(program.threads))  # threads of one program
        special = {name: np.tile(row, programs) for name, row in special_registers(program.threads).items()}
        super().__init__(programs * self.size, program.registers, special, {**self.memory.symbols, **symbols})
        self.warps = programs * -(-self.size // WARP)
        self.all_warps = np.arange(self.warps)
        self.whole_warps: tuple[Mask | None, Array] = (None, self.all_warps)  # the last mask of whole warps, and which
        self.clock = Clock(self.warps, 1)
        self.shared = SharedMemory(shared, programs, self.size)
        self.local = LocalMemory(local, self.threads)
        self.copies = PendingCopies(self.shared, programs, self.size)
        self.memories: dict[str, Memory] = {"global": self.memory, "shared": self.shared, "local": self.local}
        self.cells = {space: narrowest_access(program, space) for space in ("global", "shared")}
        self.wide_cells = {space: narrowest_access(program, space, whole=True) for space in self.cells}
        self.pc = 0
        self.progress = 0  # how often something happened that threads may wait for, other than threads' arrival
        self.alive = np.ones(self.threads, np.bool_)
        self.races: dict[tuple[str, str, int, int], Race] = {}
        self.strict = False
        self.units: dict[type[Unit], Unit] = {}
        self.mode = USUAL
        self.order = Order()
        self.polls = Polls(self.state)
        self.deferred: Deferred | None = None  # if several programs run at once

    def launch(
        self, grid: tuple[int, int, int], parameters: Mapping[str, bytes], *, strict: bool, mode: Mode = USUAL
    ) -> None:
        """Prepare for a grid of so many programs with these parameters."""
        self._prepare(grid, parameters, mode)
        self.strict = strict
        self.races = {}
        self.clock = Clock(self.warps, int(np.prod(grid)))
        self.polls, self.deferred = Polls(self.state), None
        for space in self.cells:
            self._watch(space)

    def launch_batches(
        self, grid: tuple[int, int, int], parameters: Mapping[str, bytes], mode: Mode, shadow: ConflictTracker
    ) -> None:
        """Prepare for batches of a grid's programs; `shadow` is that of global memory, common to all batches."""
        self._prepare(grid, parameters, mode)
        self.clock, cell = shadow.clock, self.wide_cells["shared"]
        self.polls = LazyPolls(self.state)
        self.deferred = Deferred(self.memory, self.size)
        self.memory.watch(shadow, self.wide_cells["global"])
        self.shared.watch(ConflictTracker(len(self.shared.bytes) // cell, shadow.clock, private=True), cell)

    def _prepare(self, grid: tuple[int, int, int], parameters: Mapping[str, bytes], mode: Mode) -> None:
        self.parameters = parameters
        for variable in self.addressed:
            self.memory.fill(variable.name, parameters[variable.name])
        self.mode, self.order = mode, Order(mode.order)
        for axis, programs in zip("xyz", grid, strict=True):
            self.special[f"%nctaid.{axis}"][:] = programs

    def _watch(self, space: str) -> None:
        memory, cell = self.memories[space], self.cells[space]
        memory.watch(Tracker(len(memory.bytes) // cell, self.clock, self._reporter(space, cell)), cell)

    def twin(self) -> "Block":
        """Another block of the same launch, to run at the same time: global memory is common, the rest its own."""
        shared, local = self.shared.size, self.local.size
        twin = Block(self.program, self.symbols, shared=shared, local=local, memory=self.memory)
        twin.parameters, twin.strict = self.parameters, self.strict
        twin.mode, twin.order = self.mode, self.order
        twin.clock, twin.races = self.clock, self.races
        for axis in "xyz":
            twin.special[f"%nctaid.{axis}"][:] = self.special[f"%nctaid.{axis}"]
        twin._watch("shared")
        return twin

    def take_over(self) -> None:
        """Become the block whose races in global memory are reported: another one ran before."""
        if isinstance(self.memory.tracker, Tracker):
            self.memory.tracker.report = self._reporter("global", self.cells["global"])

    def start(self, number: int, ctaid: tuple[int, int, int]) -> None:
        """Start block `number` of the grid: no register and no memory of the block has a value yet."""
        for axis, value in zip("xyz", ctaid, strict=True):
            self.special[f"%ctaid.{axis}"][:] = value
        self.clock.start(number)
        self._clear()

    def start_batch(self, first: int, grid: tuple[int, int, int]) -> None:
        """Start the programs from number `first` on, as many as run at once."""
        assert isinstance(self.clock, BatchClock)
        rest = np.arange(first, first + self.programs)
        for axis, size in zip("xyz", grid, strict=True):
            self.special[f"%ctaid.{axis}"][:] = np.repeat(rest % size, self.size)
            rest = rest // size
        self.clock.begin(first, self.programs)
        self._clear()

    def _clear(self) -> None:
        self.alive[:] = True
        self.forget()
        for file in self.files.values():
            file[:] = POISON
        self.files[1][:] = 0  # a predicate has no other pattern
        self.shared.start()
        self.local.start()
        self.copies.start()
        self.polls.start()
        for unit in self.units.values():
            unit.start()

    def end(self) -> None:
        """End the block that is running."""
        for unit in self.units.values():
            unit.end()

    def taking_part(self, mask: Mask | None) -> Array | None:
        """Which of the programs that run at once have active threads; None stands for all."""
        return None if mask is None or self.programs == 1 else np.any(mask.reshape(self.programs, -1), axis=1)

    def missing(self, mask: Mask | None) -> int | None:
        """A thread that has not ended, of a program that has active threads, and is not active itself; or None."""
        if mask is None:
            return None
        missing = self.alive & ~mask
        taking_part = self.taking_part(mask)
        if taking_part is not None:
            missing &= np.repeat(taking_part, self.size)
        return int(np.argmax(missing)) if missing.any() else None

    def state(self) -> bytes:
        """The registers of all threads and the memory that is the block's own."""
        own = (*self.files.values(), self.shared.bytes, self.local.bytes)
        return b"".join(part.tobytes() for part in own)

    def unit(self, kind: type[AnyUnit]) -> AnyUnit:
        """The block's unit of that kind; there is one."""
        if kind not in self.units:
            self.units[kind] = kind(self)
        unit = self.units[kind]
        assert isinstance(unit, kind)
        return unit

    # Races

    def _reporter(self, space: str, cell: int) -> Callable[[str, int, int, int, int, int], None]:
        size = self.warps * WARP
        memory = self.memories[space]

        def report(kind: str, place: int, thread: int, other: int, other_pc: int, count: int) -> None:
            key = (space, kind, self.pc, other_pc)
            known = self.races.get(key)
            instruction, before = self.program.instructions[self.pc], self.program.instructions[other_pc]
            self.races[key] = Race(
                kind=kind,
                space=space,
                line=instruction.line,
                instruction=instruction.text,
                source=instruction.source,
                other_line=before.line,
                other=before.text,
                threads=(thread % size, other % size) if known is None else known.threads,
                programs=(thread // size, other // size) if known is None else known.programs,
                place=memory.describe(place * cell) if known is None else known.place,
                count=count + (known.count if known else 0),
            )
            if self.strict:
                raise PtxError(f"race: {self.races[key]}", thread=thread % size)

        return report


def make_memory(program: Program) -> GlobalMemory:
    """Global memory with the program's variables, to which each launch adds its arrays."""
    variables = [each for each in program.variables if each.space in ("global", "const")]
    return GlobalMemory([*variables, *addressed_parameters(program)])


def addressed_parameters(program: Program) -> list[Variable]:
    """Parameters of which the kernel takes the address: they lie in memory, read-only, like constants of the module."""
    taken = {operand.name for each in program.instructions for operand in each.operands if isinstance(operand, Symbol)}
    return [
        Variable(name=each.name, space="param", align=each.size, size=each.size)
        for each in program.parameters
        if each.name in taken
    ]


def narrowest_access(program: Program, space: str, *, whole: bool = False) -> int:
    """The bytes of the narrowest access to a memory: accesses are aligned, so cells of this size tell them apart.

    With `whole` an access of several elements counts as one; otherwise its elements do, which are then told apart, too.
    """
    widths = [WIDEST if whole else 4]
    for instruction in program.instructions:
        name, *modifiers = instruction.opcode.replace("::", ".").split(".")
        if name in ("ld", "st", "atom", "red") and space in modifiers:
            count = next((int(part[1:]) for part in modifiers if part in ("v2", "v4", "v8")), 1) if whole else 1
            widths.append(size_of(modifiers[-1]) * count)
        elif name == "stmatrix" and space in modifiers:
            widths.append(4)  # of each row every thread stores a word
        elif name == "cp" and "tensor" in modifiers and space == "global":
            widths.append(1)  # the size of its elements is not written in the program
        elif name == "cp" and whole and len(instruction.operands) > 2:
            size = instruction.operands[2]
            widths.append(int(size.text, 0) if isinstance(size, Immediate) else 1)
    return min(widths)
