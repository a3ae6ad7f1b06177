"""Instructions by which the threads of a warp or block act together: shuffles, votes, reductions, barriers.

All threads that an instruction names have to be active in the same step; if some of them are elsewhere, it is an error.
"""

from collections.abc import Callable

import numpy as np

from alphabet_ptx.datatypes import WARP, Array, Mask
from alphabet_ptx.elementwise import flatten, parts
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Immediate, Instruction, Operand


def active_warps(block: Block, mask: Mask | None, opcode: str, members: Array | None = None) -> Array:
    """The numbers of the warps that take part; `members` has the mask of lanes that each thread names, None all."""
    if block.threads % WARP:
        raise PtxError(f"{opcode} needs whole warps; the block has {block.size} threads")
    if members is None:
        if mask is None:
            return block.all_warps
        if block.whole_warps[0] is mask:  # many steps in a row have the same one
            return block.whole_warps[1]
    active = np.ones(block.threads, np.bool_) if mask is None else mask
    lanes = active.reshape(-1, WARP)
    expected = np.ones_like(lanes)
    if members is not None:
        named = members.reshape(-1, WARP)
        chosen = named[np.arange(len(lanes)), lanes.argmax(axis=1)]
        expected = ((chosen[:, None] >> np.arange(WARP, dtype=np.uint32)) & 1).astype(np.bool_)
    taking_part = np.any(lanes, axis=1)
    missing = (expected != lanes) & taking_part[:, None]
    if missing.any():
        raise WaitError(
            f"{opcode} under divergence: it names threads of the warp that do not reach it together",
            thread=int(np.argmax(missing.ravel())),
        )
    warps = np.flatnonzero(taking_part)
    if members is None:
        block.whole_warps = (mask, warps)
    return warps


def named_lanes(block: Block, operand: Operand) -> Array | None:
    """The lanes that an instruction names; None stands for all, the usual case."""
    if isinstance(operand, Immediate) and int(operand.text, 0) in (-1, 0xFFFFFFFF):
        return None
    return block.source(operand, "u32")


def shuffle_lanes(mode: str, lane: Array, amount: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether that lies in its segment; otherwise a lane reads its own value."""
    segment = (clamp >> 8) & 0x1F
    limit = (lane & segment) | (clamp & 0x1F & ~segment)
    amount = amount & 0x1F
    source = {
        "up": lane - amount,
        "down": lane + amount,
        "bfly": lane ^ amount,
        "idx": (lane & segment) | (amount & ~segment),
    }[mode]
    inside = source >= limit if mode == "up" else source <= limit
    return np.where(inside, source, lane), inside


def _shuffle(instruction: Instruction, block: Block) -> Step:
    mode = parts(instruction)[2]
    targets = flatten(instruction.operands[:1])
    value, amount, clamp, members = instruction.operands[1:]
    source = block.source(value, "b32")
    steps, clamps = (block.source(operand, "s32") for operand in (amount, clamp))
    named = named_lanes(block, members)
    names, control = block.names(value), block.names(amount, clamp, members)
    lane = block.all_threads % WARP
    write = block.destination(targets[0], "b32")
    write_inside = block.destination(targets[1], "pred") if len(targets) > 1 else None

    def find_origin() -> tuple[Array, Array]:
        lanes, inside = shuffle_lanes(mode, lane, steps.astype(np.int64), clamps.astype(np.int64))
        return block.all_threads - lane + lanes, inside

    # Usually both are constants: then where a value comes from is known before anything runs.
    fixed = find_origin() if isinstance(amount, Immediate) and isinstance(clamp, Immediate) else None

    def step(mask: Mask | None) -> None:
        block.require(control, mask, "the lanes of a shuffle")
        active_warps(block, mask, instruction.opcode, named)
        unknown, cause = None, ""
        if block.unknown_in(names, None) is not None:
            unknown, cause = block.unknown_bytes(names[0], 4), block.explain(names)
        origin, inside = find_origin() if fixed is None else fixed
        if mask is not None and not mask[origin[mask]].all():
            raise PtxError(f"{instruction.opcode} reads from a thread that is not active")
        write(source[origin], mask)
        for name in block.names(targets[0]):
            if unknown is None:
                block.mark_written(name, mask)
            else:
                block.mark_bytes(name, mask, unknown[origin], cause)
        if write_inside is not None:
            write_inside(inside, mask)
            for name in block.names(targets[1]):
                block.mark_written(name, mask)

    return step


def _per_warp(compute: Callable[[str, Array, Array], Array], result: str, kind: str) -> Binder:
    """A vote or reduction: `compute` maps (mode, values, active), both (warps, lanes), to one value per warp."""

    def bind(instruction: Instruction, block: Block) -> Step:
        _, _, mode, *_ = parts(instruction)
        target, value, members = instruction.operands
        value_kind, result_kind = (parts(instruction)[-1] if part == "last" else part for part in (kind, result))
        source = block.source(value, value_kind)
        named = named_lanes(block, members)
        write = block.destination(target, result_kind)
        operands = block.names(value)

        def step(mask: Mask | None) -> None:
            block.require(block.names(members), mask, f"the threads that {instruction.opcode} names")
            unknown = block.unknown_in(operands, mask)
            cause = "" if unknown is None else block.explain(operands)
            active_warps(block, mask, instruction.opcode, named)
            active = np.ones(block.threads, np.bool_) if mask is None else mask
            answer = compute(mode, source.reshape(-1, WARP), active.reshape(-1, WARP))
            write(np.repeat(answer, WARP), mask)
            if unknown is not None:  # what one lane adds decides the result of its warp
                unknown = np.repeat(unknown.reshape(-1, WARP).any(axis=1), WARP)
            for name in block.names(target):
                block.mark_written(name, mask, unknown, cause)

        return step

    return bind


def vote(mode: str, values: Array, active: Array) -> Array:
    """The result of vote.sync for each warp, from predicates (warps, lanes)."""
    match mode:
        case "all":
            return np.asarray((values | ~active).all(axis=1))
        case "any":
            return np.asarray((values & active).any(axis=1))
        case "uni":
            return np.asarray((values | ~active).all(axis=1) | ~(values & active).any(axis=1))
    bits = (values & active).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
    return np.asarray(bits.sum(axis=1).astype(np.uint32))


def reduce_warp(mode: str, values: Array, active: Array) -> Array:
    """The result of redux.sync for each warp, from integers (warps, lanes)."""
    limits = np.iinfo(values.dtype)
    function, neutral = {
        "add": (np.add, 0),
        "min": (np.minimum, limits.max),
        "max": (np.maximum, limits.min),
        "and": (np.bitwise_and, -1 if limits.min else limits.max),
        "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0),
    }[mode]
    filled = np.where(active, values, values.dtype.type(neutral))
    return np.asarray(function.reduce(filled, axis=1, dtype=values.dtype))


def _active_mask(instruction: Instruction, block: Block) -> Step:
    write = block.destination(instruction.operands[0], "b32")

    def step(mask: Mask | None) -> None:
        active = np.ones(block.threads, np.bool_) if mask is None else mask
        write(np.repeat(vote("ballot", active.reshape(-1, WARP), active.reshape(-1, WARP)), WARP), mask)
        for name in block.names(instruction.operands[0]):
            block.mark_written(name, mask)

    return step


def barrier(instruction: Instruction, block: Block) -> Step:
    """A barrier of all threads of the block that have not ended."""
    if len(instruction.operands) > 1 and instruction.operands[1] != Immediate(str(block.size)):
        raise PtxError(f"{instruction.opcode} for a part of the block's {block.size} threads is not covered")

    def step(mask: Mask | None) -> None:
        missing = block.missing(mask)
        if missing is not None:
            raise WaitError(
                f"{instruction.opcode} under divergence: not all threads of the block arrive at it", thread=missing
            )
        block.clock.meet_block(block.taking_part(mask))

    return step


def _warp_barrier(instruction: Instruction, block: Block) -> Step:
    named = named_lanes(block, instruction.operands[0])

    def step(mask: Mask | None) -> None:
        block.clock.meet_warps(active_warps(block, mask, instruction.opcode, named))

    return step


TABLE: dict[str, Binder] = {
    "shfl.sync.{up,down,bfly,idx}.b32": _shuffle,
    "vote.sync.{all,any,uni}.pred": _per_warp(vote, "pred", "pred"),
    "vote.sync.ballot.b32": _per_warp(vote, "b32", "pred"),
    "redux.sync.{add,min,max}.{s32,u32}": _per_warp(reduce_warp, "last", "last"),
    "redux.sync.{and,or,xor}.b32": _per_warp(reduce_warp, "last", "last"),
    "activemask.b32": _active_mask,
    "{bar,barrier}[.cta].sync[.aligned]": barrier,
    "bar.warp.sync": _warp_barrier,
}
