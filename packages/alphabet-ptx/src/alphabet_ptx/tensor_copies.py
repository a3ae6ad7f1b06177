"""Bulk copies between global and shared memory, of a box of a tensor or of plain bytes, by a unit of its own.

One thread starts a copy. A copy to shared memory ends by an mbarrier; until a thread has waited for that, its place
holds NaN. A copy to global memory belongs to a group of its thread; until that is waited for, its place in global
memory holds NaN, and shared memory that is written before wait_group.read is a race. Elements outside the tensor are
read as zero (or NaN, if the map says so) and are not written.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.atomics import combine_atomically
from alphabet_ptx.datatypes import DTYPES, Array, Mask, size_of, unsigned
from alphabet_ptx.elementwise import parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step, Unit
from alphabet_ptx.mbarriers import Barriers
from alphabet_ptx.program import Address, Instruction, Operand
from alphabet_ptx.proxies import CHUNK, AsyncProxy, Reading
from alphabet_ptx.tensormaps import TensorMap, TensorMaps
from alphabet_ptx.tiles import swizzle


@dataclass(frozen=True)
class Piece:
    """What a copy moves: elements in global memory, which of them exist, their type; chunks in shared memory."""

    addresses: Array
    inside: Array
    kind: str
    chunks: Array
    fill: int = 0

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return size_of(self.kind)


@dataclass
class Store:
    """A copy to global memory: the group it belongs to, what it reads, where its data goes and what that is."""

    thread: int
    group: int
    reading: Reading | None
    view: Array
    places: Array
    elements: Array

    def deliver(self) -> None:
        """Let the data arrive."""
        self.view[self.places] = self.elements


class BulkCopies(Unit):
    """The copies to global memory under way, and how many groups each thread has committed."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.proxy = block.unit(AsyncProxy)
        self.barriers = block.unit(Barriers)
        self.start()

    def start(self) -> None:
        self.stores: list[Store] = []
        self.committed = np.zeros(self.block.threads, np.int64)

    def end(self) -> None:
        """End a block: its shared memory goes to another one, so that nothing may read it any more."""
        for store in self.stores:
            if store.reading is not None:
                raise PtxError(
                    "the block ended with no cp.async.bulk.wait_group after a copy that reads its shared memory",
                    thread=store.thread,
                )
            store.deliver()

    def load(self, piece: Piece, barrier: int, thread: int) -> None:
        """Start a copy to shared memory."""
        block = self.block
        elements = np.full(len(piece.addresses), piece.fill, unsigned(piece.size))
        wanted = piece.addresses[piece.inside]
        if len(wanted):
            threads = np.full(len(wanted), thread)
            (elements[piece.inside],) = block.memory.load(wanted, piece.size, 1, threads, block.pc)
        words = elements.view(np.uint32).reshape(-1, 4)
        self.proxy.write_later(piece.chunks, np.full(len(piece.chunks), thread))
        self.barriers.copy(thread, barrier, elements.nbytes, lambda: self.proxy.deliver(piece.chunks, words))

    def store(self, piece: Piece, thread: int) -> None:
        """Start a copy to global memory."""
        block, memory = self.block, self.block.memory
        reading = self.proxy.read(piece.chunks, np.full(len(piece.chunks), thread))
        elements = np.ascontiguousarray(reading.words).reshape(-1).view(unsigned(piece.size))[piece.inside]
        wanted = piece.addresses[piece.inside]
        places, view = np.zeros(0, np.intp), memory.views[piece.size]
        if len(wanted):
            threads = np.full(len(wanted), thread)
            memory.store(wanted, piece.size, [elements], threads, block.pc)
            places = memory.offsets(wanted, piece.size, threads, write=True) // piece.size
            view[places] = np.iinfo(view.dtype).max
        self.stores.append(Store(thread, int(self.committed[thread]), reading, view, places, elements))

    def reduce(self, piece: Piece, name: str, thread: int) -> None:
        """Start a copy that is combined with what is in global memory, element by element, as an atomic does."""
        memory = self.block.memory
        reading = self.proxy.read(piece.chunks, np.full(len(piece.chunks), thread))
        elements = np.ascontiguousarray(reading.words).reshape(-1).view(DTYPES[piece.kind])[piece.inside]
        nowhere = np.zeros(0, np.intp)
        if len(elements):
            wanted = piece.addresses[piece.inside]
            threads = np.full(len(wanted), thread)
            where = memory.offsets(wanted, piece.size, threads, write=True)
            memory.note_atomic(where, piece.size, threads, self.block.pc)
            view = memory.views[piece.size].view(DTYPES[piece.kind])
            places = where // piece.size
            view[places] = combine_atomically(name, piece.kind, flushes=False)(view[places], elements, elements)
        self.stores.append(Store(thread, int(self.committed[thread]), reading, memory.views[1], nowhere, nowhere))

    def wait(self, threads: Array, remaining: int, *, only_read: bool) -> None:
        """Let all groups of these threads end except the last `remaining`, or let them end only to read."""
        left = []
        for store in self.stores:
            if store.thread not in threads or store.group >= self.committed[store.thread] - remaining:
                left.append(store)
                continue
            if store.reading is not None:
                self.proxy.finish(store.reading)
                store.reading = None
            if only_read:
                left.append(store)
            else:
                store.deliver()
        self.stores = left


def _locate_box(
    instruction: Instruction, block: Block, tensor: Operand, shared: Operand
) -> Callable[[Mask | None], list[tuple[int, Piece]]]:
    """A function of the mask: each active thread and what it copies, for the operands of a copy of a tensor."""
    if not isinstance(tensor, Address) or f"{len(tensor.coordinates)}d" not in parts(instruction):
        raise PtxError(f"{instruction.opcode} with these coordinates is not covered; found {tensor}")
    locate_map, locate_shared = block.address(tensor), block.address(shared)
    corners = [block.source(each, "s32") for each in tensor.coordinates]
    names = block.names(*tensor.coordinates)
    maps = block.unit(TensorMaps)

    def find(mask: Mask | None) -> list[tuple[int, Piece]]:
        block.require(names, mask, "a coordinate")
        threads, places = locate_shared(mask)
        _, addresses = locate_map(mask)
        block.shared.check_alignment(places, 128, threads)
        found = []
        for thread, place, address in zip(map(int, threads), map(int, places), map(int, addresses), strict=True):
            tensor_map = maps.load(address, thread)
            if len(tensor_map.sizes) != len(corners):
                raise PtxError(f"the tensor map has {len(tensor_map.sizes)} dimensions", thread=thread)
            found.append((thread, _box(tensor_map, [int(corner[thread]) for corner in corners], place)))
        return found

    return find


def _box(tensor: TensorMap, corner: list[int], place: int) -> Piece:
    addresses, inside = tensor.locate(corner)
    chunks = swizzle(place + np.arange(0, len(addresses) * tensor.size, CHUNK), tensor.width)
    return Piece(addresses, inside, tensor.kind, chunks, np.iinfo(unsigned(tensor.size)).max if tensor.fill else 0)


def _locate_bytes(
    instruction: Instruction, block: Block, origin: Operand, shared: Operand, size: Operand
) -> Callable[[Mask | None], list[tuple[int, Piece]]]:
    """A function of the mask: each active thread and what it copies, for the operands of a copy of plain bytes."""
    locate_global, locate_shared, sizes = block.address(origin), block.address(shared), block.source(size, "u32")
    names = block.names(size)

    def find(mask: Mask | None) -> list[tuple[int, Piece]]:
        block.require(names, mask, "the size of a copy")
        threads, places = locate_shared(mask)
        _, addresses = locate_global(mask)
        block.memory.check_alignment(addresses, CHUNK, threads)
        found = []
        for thread, place, address in zip(map(int, threads), map(int, places), map(int, addresses), strict=True):
            total = int(sizes[thread])
            if total % CHUNK:
                raise PtxError(f"{instruction.opcode} copies multiples of 16 bytes; found {total}", thread=thread)
            words = address + np.arange(0, total, 4)
            piece = Piece(words, np.ones(len(words), np.bool_), "b32", place + np.arange(0, total, CHUNK))
            found.append((thread, piece))
        return found

    return find


def _copy(instruction: Instruction, block: Block) -> Step:
    """cp.async.bulk with and without .tensor: to shared memory with an mbarrier, or to global memory in a group."""
    operands = list(instruction.operands)
    if "cache_hint" in instruction.opcode:
        operands.pop()
    loads, tensor = "mbarrier" in instruction.opcode, "tensor" in parts(instruction)
    target, origin, *rest = operands
    outside, shared = (origin, target) if loads else (target, origin)
    barrier = block.address(rest.pop()) if loads else None
    if len(rest) != (not tensor):
        raise PtxError(f"{instruction.opcode} with these operands is not covered")
    find = (
        _locate_box(instruction, block, outside, shared)
        if tensor
        else _locate_bytes(instruction, block, outside, shared, rest[0])
    )
    copies = block.unit(BulkCopies)

    def step(mask: Mask | None) -> None:
        found = find(mask)
        if barrier is None:
            for thread, piece in found:
                copies.store(piece, thread)
            return
        for (thread, piece), address in zip(found, barrier(mask)[1], strict=True):
            copies.load(piece, int(address), thread)

    return step


def _reduce(instruction: Instruction, block: Block) -> Step:
    """cp.reduce.async.bulk.tensor: a copy to global memory that adds, or takes the least, and so on."""
    target, origin, *rest = instruction.operands
    if len(rest) != ("cache_hint" in instruction.opcode):
        raise PtxError(f"{instruction.opcode} with these operands is not covered")
    name = next(part for part in parts(instruction) if part in _REDUCTIONS)
    find = _locate_box(instruction, block, target, origin)
    copies = block.unit(BulkCopies)

    def step(mask: Mask | None) -> None:
        for thread, piece in find(mask):
            copies.reduce(piece, name, thread)

    return step


def _commit(_: Instruction, block: Block) -> Step:
    copies = block.unit(BulkCopies)

    def step(mask: Mask | None) -> None:
        copies.committed[slice(None) if mask is None else mask] += 1

    return step


def _wait(instruction: Instruction, block: Block) -> Step:
    copies = block.unit(BulkCopies)
    remaining = int(block.source(instruction.operands[0], "u32")[0])
    only_read = instruction.opcode.endswith(".read")

    def step(mask: Mask | None) -> None:
        threads = block.all_threads if mask is None else np.flatnonzero(mask)
        copies.wait(threads, remaining, only_read=only_read)

    return step


_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
_SHARED = "shared::{cta,cluster}"
_HINT = "[.L2::cache_hint]"
_TENSOR = "cp.async.bulk.tensor.{1d,2d,3d,4d,5d}"

TABLE: dict[str, Binder] = {
    f"{_TENSOR}.{_SHARED}.global.mbarrier::complete_tx::bytes{_HINT}": _copy,
    f"{_TENSOR}.global.shared::cta.bulk_group{_HINT}": _copy,
    f"cp.reduce.async.bulk.tensor.{{1d,2d,3d,4d,5d}}.global.shared::cta.{{{','.join(_REDUCTIONS)}}}.bulk_group"
    f"{_HINT}": _reduce,
    f"cp.async.bulk.{_SHARED}.global.mbarrier::complete_tx::bytes{_HINT}": _copy,
    f"cp.async.bulk.global.shared::cta.bulk_group{_HINT}": _copy,
    "cp.async.bulk.commit_group": _commit,
    "cp.async.bulk.wait_group[.read]": _wait,
}
