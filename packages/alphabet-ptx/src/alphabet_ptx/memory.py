"""What all memories have in common, and global memory with its guard zones; `block_memory` has a block's own.

A memory is an array of bytes. An access names one address per active thread; it is checked against the memory's bounds
and the alignment of the access before anything is read or written, and then noted by the memory's race tracker.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import Array, unsigned
from alphabet_ptx.errors import PtxError
from alphabet_ptx.homes import Home, Homes
from alphabet_ptx.program import Variable
from alphabet_ptx.races import Shadow

# Bytes of 0xFF are NaN in every floating type, so that an unchecked read could not stay unnoticed.
POISON = 0xFF
GUARD_BYTES = 256
# Device pointers start where neither a null pointer nor a truncated one nor an address of the caller can reach them.
ORIGIN = 1 << 60
# Arrays keep the alignment that they have in the caller's memory, up to the widest access.
ALIGNMENT = 16
WIDEST = 16


class Memory:
    """Bytes with bounds; addresses are offsets into them."""

    name = "memory"

    def __init__(self, size: int) -> None:
        # The views of wider types need whole elements.
        self.size = size
        self.bytes = np.full(-(-size // 16) * 16, POISON, np.uint8)
        self.views = {width: self.bytes.view(unsigned(width)) for width in (1, 2, 4, 8)}
        # Numpy's widest elements; their parts are only moved, never computed with.
        self.widest = {**self.views, WIDEST: self.bytes.view(np.complex128)}
        self.tracker: Shadow | None = None
        self.cell = 1
        self.unknown: Array | None = None  # bytes that have no value; None if all of them have one

    def watch(self, tracker: Shadow, cell: int) -> None:
        """Report races between accesses, told apart by cells of that many bytes."""
        self.tracker = tracker
        self.cell = cell

    def offsets(
        self,
        addresses: Array,
        size: int,
        threads: Array,
        *,
        write: bool,
        edge: bool = False,  # noqa: ARG002  for global memory
    ) -> Array:
        """Where in `bytes` the accesses are; raises PtxError unless all of them are aligned and inside.

        With `edge`, in global memory, one byte of each inside is enough.
        """
        self.check_alignment(addresses, size, threads)
        if addresses.min() < 0 or addresses.max() + size > self.size:
            inside = (addresses >= 0) & (addresses + size <= self.size)
            self.refuse(addresses, size, threads, ~inside, f"outside its {self.size} bytes", write=write)
        return addresses

    def describe(self, offset: int) -> str:
        """A description of a place, for messages."""
        return f"byte {offset}"

    def check_alignment(self, addresses: Array, size: int, threads: Array) -> None:
        """Raise unless all addresses are multiples of `size`, which is a power of two."""
        if int(np.bitwise_or.reduce(addresses)) & (size - 1):
            first = int(np.argmax(addresses & (size - 1) != 0))
            raise PtxError(
                f"misaligned access to {self.name} memory: {size} bytes at {int(addresses[first]):#x}",
                thread=int(threads[first]),
            )

    def refuse(self, addresses: Array, size: int, threads: Array, bad: Array, why: str, *, write: bool) -> None:
        """Raise PtxError for the first of the `bad` accesses."""
        first = int(np.argmax(bad))
        verb = "write to" if write else "read of"
        raise PtxError(
            f"{verb} {self.name} memory out of range: {size} bytes at {int(addresses[first]):#x}, {why}",
            thread=int(threads[first]),
        )

    def load(
        self,
        addresses: Array,
        width: int,
        count: int,
        threads: Array,
        pc: int,
        *,
        strong: bool = False,
        edge: bool = False,
    ) -> list[Array]:
        """The elements that the threads load: `count` arrays of neighbouring elements of `width` bytes.

        Strong accesses (relaxed, acquire, release, volatile) do not race with each other, nor with atomics. `edge`: as
        for `offsets`.
        """
        where = self.offsets(addresses, width * count, threads, write=False, edge=edge)
        if self.tracker is not None:
            self.tracker.read(*self.cells_of(where, width * count, threads), pc, atomic=strong)
        if count == 1:
            return [self.views[width][where // width]]
        view, places = self._pieces(where, width * count)
        rows = view[places].view(unsigned(width)).reshape(-1, count)
        return [rows[:, i] for i in range(count)]

    def store(
        self, addresses: Array, width: int, values: Sequence[Array], threads: Array, pc: int, *, strong: bool = False
    ) -> None:
        """Store neighbouring elements of `width` bytes for each thread; `values` has one array per element."""
        count, bits = len(values), unsigned(width)
        where = self.offsets(addresses, width * count, threads, write=True)
        view, places = self._pieces(where, width * count)
        elements = np.asarray(values[0]).view(bits)
        if count > 1:
            elements = np.stack([np.asarray(value).view(bits) for value in values], axis=1).ravel()
        pieces = elements.view(view.dtype)
        if self.unknown is not None:
            self.unknown[where[:, None] + np.arange(width * count)] = False
        if self.tracker is None:
            view[places] = pieces
            return
        cells, owners = self.cells_of(where, width * count, threads)
        self.tracker.write(
            cells, owners, pc, lambda: self._by_cell(view[places].view(bits) != elements, width), atomic=strong
        )
        view[places] = pieces
        lost = view[places].view(bits) != elements
        if np.count_nonzero(lost) and not strong:
            self.tracker.clash(cells, owners, self._by_cell(lost, width))

    def _pieces(self, where: Array, size: int) -> tuple[Array, Array]:
        """The view of memory in which accesses of `size` bytes are few elements, and the places of these."""
        width = min(size, WIDEST)
        places = where // width
        if size > width:
            places = (places[:, None] + np.arange(size // width)).ravel()
        return self.widest[width], places

    def unknown_at(self, addresses: Array, size: int, threads: Array) -> Array | None:
        """Which bytes of an access have no value (threads, size), or None if all of them have one."""
        if self.unknown is None:
            return None
        where = self.offsets(addresses, size, threads, write=False, edge=True)
        unknown = self.unknown[where[:, None] + np.arange(size)]
        return unknown if unknown.any() else None

    def note_unknown(self, addresses: Array, threads: Array, unknown: Array) -> None:
        """Note which bytes of what was stored have no value: (threads, size)."""
        assert self.unknown is not None
        size = unknown.shape[1]
        self.unknown[self.offsets(addresses, size, threads, write=True)[:, None] + np.arange(size)] = unknown

    def cells_of(self, where: Array, size: int, threads: Array) -> tuple[Array, Array]:
        """The cells of an access, and for each the thread that accesses it."""
        count = size // self.cell
        if count <= 1:
            return where // self.cell, threads
        cells = (where // self.cell)[:, None] + np.arange(count)
        return cells.ravel(), np.repeat(threads, count)

    def _by_cell(self, elements: Array, width: int) -> Array:
        """For each cell whether this holds in one of its elements, which are `width` bytes wide."""
        if width < self.cell:
            return np.asarray(elements.reshape(-1, self.cell // width).any(axis=1))
        return np.repeat(elements, width // self.cell)

    def note_atomic(self, where: Array, width: int, threads: Array, pc: int) -> None:
        """Note an atomic at these offsets: it may race with other accesses, but not with other atomics."""
        if self.tracker is not None:
            self.tracker.exchange(*self.cells_of(where, width, threads), pc)


@dataclass(frozen=True)
class Allocation:
    """A piece of global memory, by offsets."""

    name: str
    start: int
    end: int
    writable: bool


class GlobalMemory(Memory):
    """The variables of a module, whose addresses never change, and all arrays of a launch, each between guard zones."""

    name = "global"

    def __init__(self, variables: Sequence[Variable] = ()) -> None:
        self.variables = variables
        self.allocate(())
        self.symbols = {piece.name: ORIGIN + piece.start for piece in self.allocations}

    def allocate(self, arrays: Sequence[tuple[str, int, bool, int]]) -> list[Allocation]:
        """Give the memory new contents for a launch; returns the places of the arrays.

        `arrays` are (name, bytes, writable, address in the caller's memory).
        """
        variables = [
            (each.name, each.size or 0, each.space == "global" and not each.data, 0) for each in self.variables
        ]
        self.allocations = []
        position = 0
        for name, size, writable, home in (*variables, *arrays):
            start = -(-(position + GUARD_BYTES) // GUARD_BYTES) * GUARD_BYTES + home % ALIGNMENT
            position = start + size
            self.allocations.append(Allocation(name, start, position, writable))
        super().__init__(position + GUARD_BYTES)
        self.first_bytes = [piece.start for piece in self.allocations]
        self.starts = np.array(self.first_bytes, np.int64)
        self.ends = np.array([piece.end for piece in self.allocations], np.int64)
        self.writable = np.array([piece.writable for piece in self.allocations], np.bool_)
        for variable, piece in zip(self.variables, self.allocations, strict=False):
            self.bytes[piece.start : piece.end] = 0
            self.bytes[piece.start : piece.start + len(variable.data)] = np.frombuffer(variable.data, np.uint8)
        placed = self.allocations[len(variables) :]
        self.homes = Homes(
            [Home(name, home, size, piece.start) for (name, size, _, home), piece in zip(arrays, placed, strict=True)]
        )
        return placed

    def fill(self, name: str, data: bytes) -> None:
        """Set the contents of a variable."""
        start = self.symbols[name] - ORIGIN
        self.bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def forget(self, start: int, unknown: Array) -> None:
        """Note that some of the bytes from an offset on have no value."""
        if self.unknown is None:
            self.unknown = np.zeros(len(self.bytes), np.bool_)
        self.unknown[start : start + len(unknown)] |= unknown

    def offsets(self, addresses: Array, size: int, threads: Array, *, write: bool, edge: bool = False) -> Array:
        self.check_alignment(addresses, size, threads)
        where = addresses - ORIGIN
        if int(where.min()) < 0:
            where = self.homes.find(addresses, where)
        if not self.allocations:
            self.refuse(addresses, size, threads, np.ones(len(where), np.bool_), "but no array was passed", write=write)
        # Mostly all threads are inside one array: then its first and last address say so.
        first = bisect_right(self.first_bytes, int(where.min())) - 1
        if first >= 0:
            allocation = self.allocations[first]
            if where.max() + size <= allocation.end and (allocation.writable or not write):
                return np.asarray(where)
        piece = np.searchsorted(self.starts, where + (size - 1 if edge else 0), side="right") - 1
        inside = (piece >= 0) & (where + (1 if edge else size) <= self.ends[piece])
        if write:
            inside &= self.writable[piece]
        if not inside.all():
            self.refuse(addresses, size, threads, ~inside, self._explain(where[~inside][0], write=write), write=write)
        return where

    def check_edges(self, where: Array, size: int, threads: Array) -> None:
        """Raise PtxError if a write over the edge of an array changed what lies beyond it."""
        octets = where[:, None] + np.arange(size)
        piece = np.searchsorted(self.starts, octets, side="right") - 1
        beyond = (piece < 0) | (octets >= self.ends[piece])
        bad = (beyond & (self.bytes[octets] != POISON)).any(axis=1)
        if bad.any():
            self.refuse(where + ORIGIN, size, threads, bad, "changed bytes beyond the edge of an array", write=True)

    def describe(self, offset: int) -> str:
        piece = self.allocations[int(np.searchsorted(self.starts, offset, side="right")) - 1]
        return f"byte {offset - piece.start} of {piece.name!r}"

    def _explain(self, where: int, *, write: bool) -> str:
        """Where an address lies: its distance from the nearest array."""
        if where < 0 and where + ORIGIN > 0:
            return self.homes.explain(where + ORIGIN)
        piece = min(self.allocations, key=lambda piece: max(piece.start - where, where - piece.end + 1, 0))
        if piece.start <= where < piece.end and write and not piece.writable:
            return f"in {piece.name!r}, which is read-only"
        return f"{where - piece.start:+d} bytes from the start of {piece.name!r}, which has {piece.end - piece.start}"
