"""Asynchronous copies from global to shared memory (cp.async), thread by thread; `tensor_copies` has those in bulk."""

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Immediate, Instruction


def _require_together(instruction: Instruction, block: Block, mask: Mask | None) -> Array | slice:
    """The programs that take part, with all their threads; raises WaitError if some of these are elsewhere."""
    missing = block.missing(mask)
    if missing is not None:
        raise WaitError(f"{instruction.opcode} under divergence is not covered", thread=missing)
    programs = block.taking_part(mask)
    return slice(None) if programs is None else programs


def _copy(instruction: Instruction, block: Block) -> Step:
    """cp.async: `size` bytes from global to shared memory, those past the optional source size as zeros."""
    operands = list(instruction.operands)
    if "cache_hint" in instruction.opcode:
        operands.pop()
    target, origin, size, *rest = operands
    if not isinstance(size, Immediate) or len(rest) > 1:
        raise PtxError(f"{instruction.opcode} with these operands is not covered")
    total = int(size.text, 0)
    locate_target, locate_origin = block.address(target), block.address(origin)
    limits = block.source(rest[0] if rest else size, "u32")

    def load(addresses: Array, threads: Array, length: int = total) -> Array:
        """The words of some threads, (threads, words)."""
        if length % 4:
            raise PtxError(f"{instruction.opcode} of {length} bytes is not covered", thread=int(threads[0]))
        block.memory.check_alignment(addresses, total, threads)
        if length == total:
            return np.stack(block.memory.load(addresses, 4, total // 4, threads, block.pc), axis=1)
        pieces = [block.memory.load(addresses + 4 * i, 4, 1, threads, block.pc)[0] for i in range(length // 4)]
        return np.stack(pieces, axis=1)

    def step(mask: Mask | None) -> None:
        block.require(block.names(*rest), mask, "the size of a copy")
        threads, places = locate_target(mask)
        wanted = np.minimum(limits[threads], total)
        if (wanted == total).all():
            words = load(locate_origin(mask)[1], threads)
        else:
            # Where nothing is copied, nothing is read: then the address may be anything, also unknown.
            reads = limits > 0 if mask is None else mask & (limits > 0)
            addresses = np.zeros(len(threads), np.int64)
            addresses[wanted > 0] = locate_origin(reads)[1]
            words = np.zeros((len(threads), total // 4), np.uint32)
            for length in map(int, np.unique(wanted[wanted > 0])):
                part = wanted == length
                words[part, : length // 4] = load(addresses[part], threads[part], length)
        block.shared.check_alignment(places, total, threads)
        block.copies.issue(threads, places, words, block.pc)

    return step


def _commit(instruction: Instruction, block: Block) -> Step:
    def step(mask: Mask | None) -> None:
        block.copies.commit(_require_together(instruction, block, mask))

    return step


def _wait(instruction: Instruction, block: Block) -> Step:
    everything = instruction.opcode.endswith("all")
    remaining = 0 if everything else int(block.source(instruction.operands[0], "u32")[0])

    def step(mask: Mask | None) -> None:
        programs = _require_together(instruction, block, mask)
        if everything:
            block.copies.commit(programs)
        block.copies.wait(remaining, programs, block.pc)

    return step


TABLE: dict[str, Binder] = {
    "cp.async.{ca,cg}.shared[::cta].global[.L2::cache_hint][.L2::{64B,128B,256B}]": _copy,
    "cp.async.commit_group": _commit,
    "cp.async.{wait_group,wait_all}": _wait,
}
