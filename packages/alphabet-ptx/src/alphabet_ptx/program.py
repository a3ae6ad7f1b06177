"""A compiled kernel as a `Program`: instructions in order, their operands, and what its names mean."""

from dataclasses import dataclass, field
from functools import cached_property

from alphabet_ptx.errors import Source


@dataclass(frozen=True)
class Register:
    """A general register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant as it is written; its value depends on the type that the instruction reads."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """A label or a variable."""

    name: str


@dataclass(frozen=True)
class Address:
    """`[base + offset]`, or `[base, {x, y}]`: coordinates in the tensor that a descriptor at `base` describes."""

    base: "Register | Symbol | Immediate"
    offset: int
    coordinates: "tuple[Operand, ...]" = ()


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`, or the two predicates `p|q` that one comparison sets."""

    items: "tuple[Operand, ...]"


Operand = Register | Immediate | Symbol | Address | Vector


@dataclass(frozen=True)
class Instruction:
    """One statement; `guard` is the predicate before it, `negated` if it is written `@!p`."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    line: int
    text: str
    source: Source | None


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel; its `size` in bytes is that of its type, or of all of an array passed by value."""

    name: str
    kind: str
    pointer: bool
    size: int


@dataclass(frozen=True)
class Variable:
    """A `.shared`, `.local` or `.global` variable; `size` is None for the dynamic shared memory `name[]`."""

    name: str
    space: str
    align: int
    size: int | None
    data: bytes = b""


@dataclass
class Program:
    """A kernel: its instructions in order, and what its names mean."""

    name: str
    threads: tuple[int, int, int]
    parameters: list[Parameter]
    variables: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    target: int = 0  # 89 for sm_89

    @cached_property
    def written(self) -> set[str]:
        """Registers that some instruction writes."""
        targets = [operand for each in self.instructions for operand in each.operands[:1]]
        pieces = [item for target in targets for item in (target.items if isinstance(target, Vector) else (target,))]
        return {piece.name for piece in pieces if isinstance(piece, Register)}

    @cached_property
    def read(self) -> set[str]:
        """Registers that some instruction may read: named anywhere but as the target of a copy, load or atomic."""
        found: set[str] = set()
        for each in self.instructions:
            only_writes = each.opcode.startswith(("mov.", "ld.", "atom."))
            pending = [*each.operands[only_writes:], *([each.guard] if each.guard else [])]
            while pending:
                match pending.pop():
                    case Register(name):
                        found.add(name)
                    case Vector(items):
                        pending += items
                    case Address(base, _, coordinates):
                        pending += [base, *coordinates]
        return found

    @cached_property
    def swapped(self) -> set[Operand]:
        """The addresses of words of 4 bytes that compare-and-swap exchanges.

        Compilers make atomics of 2 bytes out of it: a load of the aligned word that holds them, and a loop that tries
        to exchange the word.
        """
        return {
            each.operands[1]
            for each in self.instructions
            if each.opcode.startswith("atom.") and each.opcode.endswith(".cas.b32")
        }
