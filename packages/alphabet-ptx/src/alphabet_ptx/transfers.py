"""Instructions that reach memory: loads, stores, asynchronous copies and atomics."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import DTYPES, Array, Mask, size_of, unsigned
from alphabet_ptx.elementwise import Operation, elementwise, flatten, parts
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.memory import POISON, Copy, Memory
from alphabet_ptx.program import Address, Immediate, Instruction, Operand, Register, Symbol
from alphabet_ptx.rounding import decode_bf16, encode_bf16, flush


def _memory(instruction: Instruction, block: Block) -> Memory:
    if "param" in instruction.opcode.split("."):
        return _parameter_memory(instruction, block)
    return next(
        memory for name, memory in block.memories.items() if name in instruction.opcode.replace("::", ".").split(".")
    )


def _count(instruction: Instruction) -> int:
    return next((int(part[1:]) for part in parts(instruction) if part in ("v2", "v4", "v8")), 1)


def _elements(instruction: Instruction, operand: Operand) -> list[Operand]:
    elements = flatten([operand])
    if len(elements) != _count(instruction):
        raise PtxError(f"{instruction.opcode} needs {_count(instruction)} registers; found {len(elements)}")
    return elements


@dataclass(frozen=True)
class Semantics:
    """What an access promises beyond its value: whether it is strong, and acquires or releases for other programs.

    A volatile access is a relaxed one. Semantics that reach only the block order nothing between programs.
    """

    strong: bool
    acquire: bool
    release: bool


def _semantics(instruction: Instruction, memory: Memory) -> Semantics:
    modifiers = set(parts(instruction)) if memory.name == "global" else set()
    wide = "cta" not in modifiers
    return Semantics(
        strong=bool(modifiers & {"volatile", "relaxed", "acquire", "release", "acq_rel"}),
        acquire=wide and bool(modifiers & {"acquire", "acq_rel"}),
        release=wide and bool(modifiers & {"release", "acq_rel"}),
    )


def spread(values: Array, threads: Array, count: int) -> Array:
    """An array with one value per thread, from the values of some of them; the others get zeros."""
    if len(threads) == count:
        return values
    result = np.zeros((count, *values.shape[1:]), values.dtype)
    result[threads] = values
    return result


def _load(instruction: Instruction, block: Block) -> Step:
    kind = parts(instruction)[-1]
    memory, width, count = _memory(instruction, block), size_of(kind), _count(instruction)
    targets = _elements(instruction, instruction.operands[0])
    locate = block.address(instruction.operands[1])
    writers = [block.destination(target, kind) for target in targets]
    written = block.names(*targets)
    semantics = _semantics(instruction, memory)
    # What a loop of compare-and-swap begins with: for an atomic of 2 bytes, half of the word may lie beyond the array.
    guess = memory is block.memory and width * count == 4 and instruction.operands[1] in block.program.swapped
    strong = semantics.strong or guess

    def step(mask: Mask | None) -> None:
        threads, addresses = locate(mask)
        values = memory.load(addresses, width, count, threads, block.pc, strong=strong, edge=guess)
        if semantics.strong:
            block.clock.synchronize(addresses, threads, acquire=semantics.acquire, release=False, write=False)
        if memory.name == "global":
            block.polls.note(block.pc, addresses, *values, strong=semantics.strong)
        for write, value in zip(writers, values, strict=True):
            write(spread(value.view(DTYPES[kind]), threads, block.threads), mask)
        for name in written:
            if block.unknown[name] is not None:
                block.mark_written(name, mask)
        unknown = memory.unknown_at(addresses, width * count, threads)
        if unknown is not None:
            for target, part in zip(targets, np.split(unknown, count, axis=1), strict=True):
                for name in block.names(target):
                    everyone = spread(part, threads, block.threads)
                    block.mark_bytes(name, mask, everyone, f"{memory.name} memory to which nothing known was written")

    return step


def _load_parameter(instruction: Instruction, block: Block) -> Step:
    """ld.param: a parameter of the kernel, or what a function and its caller hand each other."""
    address = instruction.operands[1]
    kernel = {parameter.name: parameter.size for parameter in block.program.parameters}
    if not isinstance(address, Address) or not isinstance(address.base, Symbol) or address.base.name not in kernel:
        return _load(instruction, block)
    kind = parts(instruction)[-1]
    targets = _elements(instruction, instruction.operands[0])
    name, offset = address.base.name, address.offset
    if offset < 0 or offset + len(targets) * size_of(kind) > kernel[name]:
        raise PtxError(f"{instruction.opcode} reads beyond the parameters of the kernel: {name} at byte {offset}")
    writers = [block.destination(target, kind) for target in targets]

    def step(mask: Mask | None) -> None:
        values = np.frombuffer(block.parameters[name], DTYPES[kind], len(targets), offset)
        for write, value, target in zip(writers, values, targets, strict=True):
            write(value, mask)
            for register in block.names(target):
                block.mark_written(register, mask)

    return step


def _parameter_memory(instruction: Instruction, block: Block) -> Memory:
    """Where ld.param and st.param go: an address in a register is that of a parameter of the kernel."""
    address = instruction.operands[0 if instruction.opcode.startswith("st") else 1]
    if not isinstance(address, Address) or isinstance(address.base, Immediate):
        raise PtxError(f"expected the address of a parameter; found {address}")
    if isinstance(address.base, Register):
        return block.memory
    if address.base.name not in [each.name for each in block.program.variables if each.space == "local"]:
        raise PtxError(f"{instruction.opcode} reads beyond the parameters of the kernel: {address.base.name}")
    return block.local


def _store(instruction: Instruction, block: Block) -> Step:
    kind = parts(instruction)[-1]
    memory, width = _memory(instruction, block), size_of(kind)
    given = _elements(instruction, instruction.operands[1])
    locate = block.address(instruction.operands[0])
    sources = [block.source(operand, kind) for operand in given]
    names = [block.names(operand) for operand in given]
    everything = [name for part in names for name in part]
    semantics = _semantics(instruction, memory)

    def step(mask: Mask | None) -> None:
        threads, addresses = locate(mask)
        values = [source if mask is None else source[mask] for source in sources]
        if any(block.unknown[name] is not None for name in everything):
            if memory.name == "global":
                block.require(everything, mask, "a value stored to global memory", size=width)
            unknown = [block.unknown_bytes(part[0], width)[threads] if part else None for part in names]
            values = [_poisoned(value, where) for value, where in zip(values, unknown, strict=True)]
        if not block.order.lockstep:
            turn = block.order.arrange(len(threads))
            threads, addresses, values = threads[turn], addresses[turn], [value[turn] for value in values]
        elements = [np.ascontiguousarray(value) for value in values]
        memory.store(addresses, width, elements, threads, block.pc, strong=semantics.strong)
        if semantics.strong:
            block.clock.synchronize(addresses, threads, acquire=False, release=semantics.release, read=False)
        if memory.unknown is not None:
            nothing = np.zeros((len(threads), width), np.bool_)
            bytes_ = [block.unknown_bytes(part[0], width)[threads] if part else nothing for part in names]
            memory.note_unknown(addresses, threads, np.concatenate(bytes_, axis=1))

    return step


def _poisoned(value: Array, unknown: Array | None) -> Array:
    """The values to store, with the contents of uninitialised memory in those bytes that are unknown."""
    if unknown is None or not unknown.any():
        return value
    octets = np.ascontiguousarray(value).view(np.uint8).reshape(len(value), -1)
    return np.where(unknown, np.uint8(POISON), octets).view(unsigned(unknown.shape[1]))[:, 0]


def _require_together(instruction: Instruction, block: Block, mask: Mask | None) -> None:
    if mask is not None and (mask != block.alive).any():
        raise WaitError(
            f"{instruction.opcode} under divergence is not covered", thread=int(np.argmax(block.alive & ~mask))
        )


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

    def step(mask: Mask | None) -> None:
        block.require(block.names(*rest), mask, "the size of a copy")
        threads, places = locate_target(mask)
        wanted = np.minimum(limits[threads], total)
        # Where nothing is copied, nothing is read: then the address may be anything, also unknown.
        reads = limits > 0 if mask is None else mask & (limits > 0)
        addresses = np.zeros(len(threads), np.int64)
        addresses[wanted > 0] = locate_origin(reads)[1]
        words = np.zeros((len(threads), total // 4), np.uint32)
        for length in map(int, np.unique(wanted[wanted > 0])):
            part = wanted == length
            if length % 4:
                raise PtxError(f"{instruction.opcode} of {length} bytes is not covered", thread=int(threads[part][0]))
            block.memory.check_alignment(addresses[part], total, threads[part])
            if length == total:
                loaded = block.memory.load(addresses[part], 4, total // 4, threads[part], block.pc)
                words[part] = np.stack(loaded, axis=1)
                continue
            for i in range(length // 4):
                (words[part, i],) = block.memory.load(addresses[part] + 4 * i, 4, 1, threads[part], block.pc)
        block.shared.check_alignment(places, total, threads)
        block.copies.issue(Copy(threads, places, words), block.pc)

    return step


def _commit(instruction: Instruction, block: Block) -> Step:
    def step(mask: Mask | None) -> None:
        _require_together(instruction, block, mask)
        block.copies.commit()

    return step


def _wait(instruction: Instruction, block: Block) -> Step:
    everything = instruction.opcode.endswith("all")
    remaining = 0 if everything else int(block.source(instruction.operands[0], "u32")[0])

    def step(mask: Mask | None) -> None:
        _require_together(instruction, block, mask)
        if everything:
            block.copies.commit()
        block.copies.wait(remaining, block.pc)

    return step


def combine_atomically(name: str, kind: str, flushes: bool) -> Callable[[Array, Array, Array], Array]:
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


_ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "cas")


def _atomic(instruction: Instruction, block: Block) -> Step:
    """An atomic: one thread after another in the order of the launch, so that results repeat exactly."""
    modifiers = parts(instruction)
    kind = modifiers[-1]
    name = next(part for part in modifiers if part in _ATOMICS)
    memory, width, count = _memory(instruction, block), size_of(kind), _count(instruction)
    operands = list(instruction.operands)
    targets = _elements(instruction, operands.pop(0)) if modifiers[0] == "atom" else []
    locate = block.address(operands[0])
    values = [block.source(operand, kind) for operand in _elements(instruction, operands[1])]
    replacements = [block.source(operands[2], kind)] if name == "cas" else values
    # Float32 sums in global memory flush subnormal numbers; in shared memory they do not.
    combine = combine_atomically(name, kind, flushes=kind == "f32" and name == "add" and memory.name == "global")
    writers = [block.destination(target, kind) for target in targets]
    names, written = block.names(*flatten(operands[1:])), block.names(*targets)
    semantics = _semantics(instruction, memory)

    word = name == "cas" and width == 4 and memory is block.memory

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
        memory.note_atomic(where, width * count, threads, block.pc)
        view = memory.views[width]
        for i, (value, replacement) in enumerate(zip(values, replacements, strict=True)):
            old = np.zeros((block.threads, *DTYPES[kind].shape), DTYPES[kind].base)
            for thread, place in zip(threads, where // width + i, strict=True):
                cell = view[place : place + 1].view(old.dtype)
                old[thread] = cell if DTYPES[kind].shape else cell[0]
                cell[:] = combine(
                    old[thread : thread + 1], value[thread : thread + 1], replacement[thread : thread + 1]
                )
            if writers:
                writers[i](old, mask)
                block.polls.note(block.pc, addresses, old, strong=True)
        if word:
            block.memory.check_edges(where, width, threads)
        if memory.name == "global":
            block.clock.synchronize(addresses, threads, acquire=semantics.acquire, release=semantics.release)
        for register in written:
            block.mark_written(register, mask)

    return step


_TYPES = "{b8,u8,s8,b16,u16,s16,f16,b32,u32,s32,f32,b64,u64,s64,f64}"
_CACHE = "[.{ca,cg,cs,cv,lu,wb,wt}]"
_EVICTION = (
    "[.L1::{evict_normal,evict_unchanged,evict_first,evict_last,no_allocate}][.L2::cache_hint][.L2::{64B,128B,256B}]"
)
_SHARED = "shared[::cta]"
_SCOPE = "[.{cta,gpu,sys}]"
_ORDER = "[.{relaxed,acquire,release,acq_rel}]"
# The manual puts semantics and scope before the space, Triton behind it in either order.
_WHERE = f"{_ORDER}{_SCOPE}.{{global,{_SHARED}}}{_SCOPE}{_ORDER}{_SCOPE}"
_NUMBERS = "{add.{u32,s32,u64,f32,f64,noftz.{f16,f16x2,bf16,bf16x2},{v2,v4}.f32},{min,max}.{u32,s32,u64,s64}}"
_BITS = "{{and,or,xor,exch,cas}.{b32,b64},cas.b16}"

TABLE: dict[str, Binder] = {
    f"ld.param[.{{v2,v4}}].{_TYPES}": _load_parameter,
    f"st.param[.{{v2,v4}}].{_TYPES}": _store,
    f"ld.{{relaxed,acquire}}.{{cta,gpu,sys}}.global{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _load,
    f"ld[.{{weak,volatile}}].global{_CACHE}[.nc]{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _load,
    f"ld[.volatile].{{{_SHARED},local}}[.{{v2,v4}}].{_TYPES}": _load,
    f"st.{{relaxed,release}}.{{cta,gpu,sys}}.global{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _store,
    f"st[.{{weak,volatile}}].global{_CACHE}{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _store,
    f"st[.volatile].{{{_SHARED},local}}[.{{v2,v4}}].{_TYPES}": _store,
    f"cp.async.{{ca,cg}}.{_SHARED}.global[.L2::cache_hint][.L2::{{64B,128B,256B}}]": _copy,
    "cp.async.commit_group": _commit,
    "cp.async.{wait_group,wait_all}": _wait,
    f"atom{_WHERE}.{{{_NUMBERS},{_BITS}}}": _atomic,
    f"red{_WHERE}.{{{_NUMBERS},{_BITS}}}": _atomic,
    # A cache policy changes no values.
    "createpolicy.fractional.L2::{evict_first,evict_last,evict_unchanged,evict_normal}.b64": elementwise(
        lambda _: Operation(lambda fraction: np.zeros(len(fraction), np.uint64), ("b64",), ("f32",))
    ),
}
