"""Atomics in global and shared memory."""

from collections.abc import Callable

import numpy as np

from alphabet_ptx.datatypes import Array, Mask, size_of
from alphabet_ptx.deferred import Combine, Operation, elements_of, exchange
from alphabet_ptx.elementwise import flatten, parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Instruction, Program, Register
from alphabet_ptx.rounding import decode_bf16, encode_bf16, flush
from alphabet_ptx.transfers import SHARED, count_elements, find_memory, find_semantics, list_elements


def combine_atomically(name: str, kind: str, flushes: bool) -> Combine:
    """What an atomic stores: a function of the old value, the operand, and for cas the value to be stored."""
    if name == "cas":
        return lambda old, value, new: np.where(old == value, new, old)
    if kind.startswith("bf16"):
        return lambda old, value, _: encode_bf16(decode_bf16(old) + decode_bf16(value))
    if flushes:
        return lambda old, value, _: flush(flush(old) + flush(value))
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda _, value: value,
    }
    function = functions[name]
    return lambda old, value, _: function(old, value)


def is_deferrable(instruction: Instruction, program: Program) -> bool:
    """Whether an atomic may happen later: it is in global memory, and nobody reads what it found."""
    modifiers = parts(instruction)
    results = flatten(instruction.operands[:1]) if modifiers[0] == "atom" else []
    unread = all(isinstance(each, Register) and each.name not in program.read for each in results)
    return "global" in modifiers and "cas" not in modifiers and unread


_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "cas")


def _atomic(instruction: Instruction, block: Block) -> Step:
    """An atomic: one thread after another in the order of the launch, so that results repeat exactly."""
    modifiers = parts(instruction)
    kind = modifiers[-1]
    name = next(part for part in modifiers if part in _ATOMICS)
    memory, width, count = find_memory(instruction, block), size_of(kind), count_elements(instruction)
    operands = list(instruction.operands)
    targets = list_elements(instruction, operands.pop(0)) if modifiers[0] == "atom" else []
    locate = block.address(operands[0])
    values = [block.source(operand, kind) for operand in list_elements(instruction, operands[1])]
    replacements = [block.source(operands[2], kind)] if name == "cas" else values
    # Float32 sums in global memory flush subnormal numbers; in shared memory they do not.
    combine = combine_atomically(name, kind, flushes=kind == "f32" and name == "add" and memory.name == "global")
    writers = [block.destination(target, kind) for target in targets]
    names, written = block.names(*flatten(operands[1:])), block.names(*targets)
    semantics = find_semantics(instruction, memory)

    word = name == "cas" and width == 4 and memory is block.memory
    deferrable = is_deferrable(instruction, block.program)
    operation = Operation(name, kind)

    def step(mask: Mask | None) -> None:
        threads, addresses = locate(mask)
        if not block.order.lockstep:
            turn = block.order.arrange(len(threads))
            threads, addresses = threads[turn], addresses[turn]
        block.require(names, mask, "an operand of an atomic")
        where = memory.offsets(addresses, width * count, threads, write=True, edge=word)
        unknown = memory.unknown_at(addresses, width * count, threads)
        if unknown is not None:
            raise PtxError(
                f"{instruction.opcode} changes memory to which nothing known was written",
                thread=int(threads[np.argmax(unknown.any(axis=1))]),
            )
        if deferrable and block.deferred is not None:
            block.deferred.add(operation, combine, threads, where, width, [value[threads] for value in values])
            for register in written:
                block.mark_written(register, mask)
            return
        memory.note_atomic(where, width * count, threads, block.pc)
        elements = elements_of(memory, kind)
        for i, (value, replacement) in enumerate(zip(values, replacements, strict=True)):
            found = exchange(elements, where // width + i, value[threads], replacement[threads], combine)
            if writers:
                old = np.zeros((block.threads, *found.shape[1:]), found.dtype)
                old[threads] = found
                writers[i](old, mask)
                block.polls.note(block.pc, addresses, old, strong=memory is block.memory)
        if word:
            block.memory.check_edges(where, width, threads)
        if memory.name == "global":
            block.clock.synchronize(addresses, threads, acquire=semantics.acquire, release=semantics.release)
        for register in written:
            block.mark_written(register, mask)

    return step


_SCOPE = "[.{cta,gpu,sys}]"
_ORDER = "[.{relaxed,acquire,release,acq_rel}]"
# The manual puts semantics and scope before the space, Triton behind it in either order.
_WHERE = f"{_ORDER}{_SCOPE}.{{global,{SHARED}}}{_SCOPE}{_ORDER}{_SCOPE}"
_NUMBERS = "{add.{u32,s32,u64,f32,f64,noftz.{f16,f16x2,bf16,bf16x2},{v2,v4}.f32},{min,max}.{u32,s32,u64,s64}}"
_BITS = "{{and,or,xor,exch,cas}.{b32,b64},cas.b16}"

TABLE: dict[str, Binder] = {
    f"atom{_WHERE}.{{{_NUMBERS},{_BITS}}}": _atomic,
    f"red{_WHERE}.{{{_NUMBERS},{_BITS}}}": _atomic,
}
