"""One block of a grid: its registers, and its threads in lockstep.

Registers of one width are the rows of one array, so that the operands of an instruction are fixed views, found once.
Every instruction becomes a `Step`: a function of the active threads (None: all of them). How threads diverge and join
again is decided in `schedule`.

Which registers have a value is kept in `knowledge`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from alphabet_ptx.clock import Clock
from alphabet_ptx.datatypes import DTYPES, WARP, Array, Mask, is_float, is_signed, size_of
from alphabet_ptx.errors import PtxError
from alphabet_ptx.knowledge import Knowledge
from alphabet_ptx.memory import POISON, GlobalMemory, LocalMemory, Memory, PendingCopies, SharedMemory
from alphabet_ptx.modes import USUAL, Mode
from alphabet_ptx.operands import constant, special_registers
from alphabet_ptx.orders import Order
from alphabet_ptx.polls import Polls
from alphabet_ptx.program import Address, Immediate, Instruction, Operand, Program, Register, Symbol, Variable
from alphabet_ptx.races import Race, Tracker

Step = Callable[[Mask | None], None]
Binder = Callable[[Instruction, "Block"], Step]

CARRY = "%carry"


class Unit:
    """A part of the machine that some instructions need, with a state of its own for each block."""

    def __init__(self, block: "Block") -> None:
        self.block = block

    def start(self) -> None:
        """Start a block, which knows nothing of the one before it."""

    def end(self) -> None:
        """End a block; raises PtxError if something is still under way that may not be."""


AnyUnit = TypeVar("AnyUnit", bound=Unit)


class Block(Knowledge):
    """The state of the block that is running, and what instructions are bound to."""

    def __init__(
        self,
        program: Program,
        symbols: Mapping[str, int],
        *,
        shared: int,
        local: int,
        memory: GlobalMemory | None = None,
    ) -> None:
        self.program = program
        self.parameters: Mapping[str, bytes] = {}
        self.addressed = addressed_parameters(program)
        variables = [each for each in program.variables if each.space in ("global", "const")]
        self.memory = GlobalMemory([*variables, *self.addressed]) if memory is None else memory
        self.symbols = {**self.memory.symbols, **symbols}
        self.threads = int(np.prod(program.threads))
        self.all_threads = np.arange(self.threads)
        self.warps = -(-self.threads // WARP)
        self.clock = Clock(self.warps, 1)
        self.shared = SharedMemory(shared)
        self.local = LocalMemory(local, self.threads)
        self.copies = PendingCopies(self.shared)
        self.memories: dict[str, Memory] = {"global": self.memory, "shared": self.shared, "local": self.local}
        self.cells = {space: narrowest_access(program, space) for space in ("global", "shared")}
        self.special = special_registers(program.threads)
        self.ctaid = (0, 0, 0)
        self.pc = 0
        self.progress = 0  # how often something happened that threads may wait for, other than threads' arrival
        self.alive = np.ones(self.threads, np.bool_)
        self.races: dict[tuple[str, str, int, int], Race] = {}
        self.strict = False
        self.units: dict[type[Unit], Unit] = {}
        self.mode = USUAL
        self.order = Order()
        self.polls = Polls()
        self._allocate_registers()

    def _allocate_registers(self) -> None:
        kinds = self.program.registers | {CARRY: "pred"}
        super().__init__(self.threads, {name: size_of(kind) for name, kind in kinds.items()})
        counts = Counter(size_of(kind) for kind in kinds.values())
        self.files = {size: np.full((count, self.threads * size), POISON, np.uint8) for size, count in counts.items()}
        self.rows: dict[str, Array] = {}
        self.row_numbers: dict[str, int] = {}  # within the file of the register's size
        taken: Counter[int] = Counter()
        for name, kind in kinds.items():
            size = size_of(kind)
            self.rows[name] = self.files[size][taken[size]]
            self.row_numbers[name] = taken[size]
            taken[size] += 1

    def launch(
        self, grid: tuple[int, int, int], parameters: Mapping[str, bytes], *, strict: bool, mode: Mode = USUAL
    ) -> None:
        """Prepare for a grid of so many programs with these parameters."""
        self.parameters = parameters
        for variable in self.addressed:
            self.memory.fill(variable.name, parameters[variable.name])
        self.strict = strict
        self.mode, self.order = mode, Order(mode.order)
        self.races = {}
        self.clock = Clock(self.warps, int(np.prod(grid)))
        for axis, programs in zip("xyz", grid, strict=True):
            self.special[f"%nctaid.{axis}"][:] = programs
        for space in self.cells:
            self._watch(space)

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
        if self.memory.tracker is not None:
            self.memory.tracker.report = self._reporter("global", self.cells["global"])

    def start(self, number: int, ctaid: tuple[int, int, int]) -> None:
        """Start block `number` of the grid: no register and no memory of the block has a value yet."""
        self.ctaid = ctaid
        for axis, value in zip("xyz", ctaid, strict=True):
            self.special[f"%ctaid.{axis}"][:] = value
        self.clock.start(number)
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

    def unit(self, kind: type[AnyUnit]) -> AnyUnit:
        """The block's unit of that kind; there is one."""
        if kind not in self.units:
            self.units[kind] = kind(self)
        unit = self.units[kind]
        assert isinstance(unit, kind)
        return unit

    # Operands

    def register(self, operand: Operand) -> str:
        """The name of an operand; raises PtxError unless it is a declared register."""
        if not isinstance(operand, Register) or operand.name not in self.rows:
            raise PtxError(f"expected a declared register; found {operand}")
        return operand.name

    def view(self, name: str, kind: str) -> Array:
        """A view of a register as an array of that type, one element per thread; of its lower part if it is wider."""
        row, size = self.rows[name], size_of(kind)
        width = row.size // self.threads
        if size > width:
            raise PtxError(f"register {name} of {width} bytes is too narrow for {kind}")
        if size == width:
            return row.view(DTYPES[kind].base).reshape(self.threads, *DTYPES[kind].shape)
        return row.reshape(self.threads, width)[:, :size].view(DTYPES[kind])[:, 0]

    def source(self, operand: Operand, kind: str) -> Array:
        """The value of an operand, one element per thread; for a register a view, which changes with it."""
        match operand:
            case Register(name) if name in self.rows:
                return self.view(name, kind)
            case Register(name) if name in self.special:
                if size_of(kind) != 4:
                    raise PtxError(f"special register {name} has 32 bits; it cannot be read as {kind}")
                return self.special[name].view(DTYPES[kind])
            case Register(name):
                raise PtxError(f"unknown special register {name}")
            case Immediate(text):
                return np.full(self.threads, constant(text, kind), DTYPES[kind].base)
            case Symbol(name) if name in self.symbols:
                return np.full(self.threads, self.symbols[name], DTYPES[kind])
        raise PtxError(f"cannot read the operand {operand}")

    def destination(self, operand: Operand, kind: str) -> Callable[[Array, Mask | None], None]:
        """A function that writes an operand, extended to the register's width, in the active threads."""
        if operand == Symbol("_"):
            return lambda _, __: None
        name = self.register(operand)
        size, width = size_of(kind), self.rows[name].size // self.threads
        if size < width:
            if is_float(kind):
                raise PtxError(f"register {name} of {width} bytes is too wide for {kind}")
            kind = f"{'s' if is_signed(kind) else 'u'}{8 * width}"
        target = self.view(name, kind)

        def write(value: Array, mask: Mask | None) -> None:
            if mask is None:
                target[...] = value
            else:
                np.copyto(target, value, where=mask if target.ndim == 1 else mask[:, None], casting="unsafe")

        return write

    def whole(self, operand: Operand, kind: str) -> Array | None:
        """The register that an operand of that type fills entirely, one number per thread; None if it does not."""
        if not isinstance(operand, Register) or operand.name not in self.rows or DTYPES[kind].shape:
            return None
        return self.view(operand.name, kind) if self.rows[operand.name].size == size_of(kind) * self.threads else None

    def address(self, operand: Operand) -> Callable[[Mask | None], tuple[Array, Array]]:
        """A function of the mask that returns the active threads and their addresses."""
        if not isinstance(operand, Address):
            raise PtxError(f"expected an address; found {operand}")
        names = self.names(operand.base)
        wide = not names or self.rows[names[0]].size == 8 * self.threads
        base = self.source(operand.base, "s64" if wide else "u32")
        offset = operand.offset

        def locate(mask: Mask | None) -> tuple[Array, Array]:
            self.require(names, mask, "an address")
            if mask is None:
                return self.all_threads, base.astype(np.int64) + offset
            return np.flatnonzero(mask), base[mask].astype(np.int64) + offset

        return locate

    def names(self, *operands: Operand) -> list[str]:
        """The names of those operands that are registers and not special ones."""
        return [operand.name for operand in operands if isinstance(operand, Register) and operand.name in self.rows]

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


def addressed_parameters(program: Program) -> list[Variable]:
    """Parameters of which the kernel takes the address: they lie in memory, read-only, like constants of the module."""
    taken = {operand.name for each in program.instructions for operand in each.operands if isinstance(operand, Symbol)}
    return [
        Variable(name=each.name, space="param", align=each.size, size=each.size)
        for each in program.parameters
        if each.name in taken
    ]


def narrowest_access(program: Program, space: str) -> int:
    """The bytes of the narrowest access to a memory: accesses are aligned, so cells of this size tell them apart."""
    widths = [4]
    for instruction in program.instructions:
        name, *modifiers = instruction.opcode.replace("::", ".").split(".")
        if name in ("ld", "st", "atom", "red") and space in modifiers:
            widths.append(size_of(modifiers[-1]))
        elif space == "global" and name == "cp" and "tensor" in modifiers:
            widths.append(1)  # the size of its elements is not written in the program
    return min(widths)
