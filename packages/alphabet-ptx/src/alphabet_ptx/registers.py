"""The registers of threads, and the operands of instructions as arrays with one element per thread.

Registers of one width are the rows of one array, so that the operands of an instruction are fixed views, found once.
"""

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from alphabet_ptx.datatypes import DTYPES, Array, Mask, is_float, is_signed, size_of
from alphabet_ptx.errors import PtxError
from alphabet_ptx.knowledge import Knowledge
from alphabet_ptx.memory import POISON
from alphabet_ptx.operands import constant
from alphabet_ptx.program import Address, Immediate, Operand, Register, Symbol

CARRY = "%carry"


class Registers(Knowledge):
    """The registers of so many threads, by name with their types, special registers and symbols of the program."""

    def __init__(
        self, threads: int, kinds: Mapping[str, str], special: Mapping[str, Array], symbols: Mapping[str, int]
    ) -> None:
        kinds = {**kinds, CARRY: "pred"}
        super().__init__(threads, {name: size_of(kind) for name, kind in kinds.items()})
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
        self.all_threads = np.arange(threads)
        self.special = special
        self.symbols = symbols
        self.constants: dict[tuple[str, str], Array] = {}
        self._last: tuple[Mask | None, Array] = (None, self.all_threads)

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
                return self._constant(text, kind)
            case Symbol(name) if name in self.symbols:
                return np.full(self.threads, self.symbols[name], DTYPES[kind])
        raise PtxError(f"cannot read the operand {operand}")

    def _constant(self, text: str, kind: str) -> Array:
        """A constant, one element per thread; the same array for all instructions that read it."""
        key = (text, kind)
        if key not in self.constants:
            self.constants[key] = np.full(self.threads, constant(text, kind), DTYPES[kind].base)
            self.constants[key].setflags(write=False)
        return self.constants[key]

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

        def add(addresses: Array) -> Array:
            total = addresses.astype(np.int64) + offset
            return total if wide or not offset else total & 0xFFFFFFFF  # where it wraps around, as in a GPU

        def locate(mask: Mask | None) -> tuple[Array, Array]:
            self.require(names, mask, "an address")
            if mask is None:
                return self.all_threads, add(base)
            threads = self.active(mask)
            return threads, add(base[threads])

        return locate

    def active(self, mask: Mask | None) -> Array:
        """The numbers of the active threads."""
        if mask is None:
            return self.all_threads
        if self._last[0] is not mask:  # many steps in a row have the same one
            self._last = (mask, np.flatnonzero(mask))
        return self._last[1]

    def names(self, *operands: Operand) -> list[str]:
        """The names of those operands that are registers and not special ones."""
        return [operand.name for operand in operands if isinstance(operand, Register) and operand.name in self.rows]
