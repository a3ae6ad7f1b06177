"""Instructions that load from memory and store to it; `atomics` and `copies` have the others that reach it."""

from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import DTYPES, Array, Mask, size_of, unsigned
from alphabet_ptx.elementwise import Operation, elementwise, flatten, parts
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.memory import POISON, Memory
from alphabet_ptx.program import Address, Immediate, Instruction, Operand, Register, Symbol


def find_memory(instruction: Instruction, block: Block) -> Memory:
    """The memory that an instruction reaches."""
    if "param" in instruction.opcode.split("."):
        return _parameter_memory(instruction, block)
    return next(
        memory for name, memory in block.memories.items() if name in instruction.opcode.replace("::", ".").split(".")
    )


def count_elements(instruction: Instruction) -> int:
    """How many neighbouring elements an instruction moves for each thread."""
    return next((int(part[1:]) for part in parts(instruction) if part in ("v2", "v4", "v8")), 1)


def list_elements(instruction: Instruction, operand: Operand) -> list[Operand]:
    """The registers of an operand, one for each element that the instruction moves."""
    elements = flatten([operand])
    if len(elements) != count_elements(instruction):
        raise PtxError(f"{instruction.opcode} needs {count_elements(instruction)} registers; found {len(elements)}")
    return elements


@dataclass(frozen=True)
class Semantics:
    """What an access promises beyond its value: whether it is strong, and acquires or releases for other programs.

    A volatile access is a relaxed one. Semantics that reach only the block order nothing between programs.
    """

    strong: bool
    acquire: bool
    release: bool


def find_semantics(instruction: Instruction, memory: Memory) -> Semantics:
    """What the opcode of an access to a memory promises."""
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
    memory, width, count = find_memory(instruction, block), size_of(kind), count_elements(instruction)
    targets = list_elements(instruction, instruction.operands[0])
    locate = block.address(instruction.operands[1])
    writers = [block.destination(target, kind) for target in targets]
    written = block.names(*targets)
    semantics = find_semantics(instruction, memory)
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
    targets = list_elements(instruction, instruction.operands[0])
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
    memory, width = find_memory(instruction, block), size_of(kind)
    given = list_elements(instruction, instruction.operands[1])
    locate = block.address(instruction.operands[0])
    sources = [block.source(operand, kind) for operand in given]
    names = [block.names(operand) for operand in given]
    everything = [name for part in names for name in part]
    semantics = find_semantics(instruction, memory)

    def step(mask: Mask | None) -> None:
        threads, addresses = locate(mask)
        values = [source if mask is None else source[threads] for source in sources]
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


_TYPES = "{b8,u8,s8,b16,u16,s16,f16,b32,u32,s32,f32,b64,u64,s64,f64}"
_CACHE = "[.{ca,cg,cs,cv,lu,wb,wt}]"
_EVICTION = (
    "[.L1::{evict_normal,evict_unchanged,evict_first,evict_last,no_allocate}][.L2::cache_hint][.L2::{64B,128B,256B}]"
)
SHARED = "shared[::cta]"

TABLE: dict[str, Binder] = {
    f"ld.param[.{{v2,v4}}].{_TYPES}": _load_parameter,
    f"st.param[.{{v2,v4}}].{_TYPES}": _store,
    f"ld.{{relaxed,acquire}}.{{cta,gpu,sys}}.global{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _load,
    f"ld[.{{weak,volatile}}].global{_CACHE}[.nc]{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _load,
    f"ld[.volatile].{{{SHARED},local}}[.{{v2,v4}}].{_TYPES}": _load,
    f"st.{{relaxed,release}}.{{cta,gpu,sys}}.global{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _store,
    f"st[.{{weak,volatile}}].global{_CACHE}{_EVICTION}[.{{v2,v4,v8}}].{_TYPES}": _store,
    f"st[.volatile].{{{SHARED},local}}[.{{v2,v4}}].{_TYPES}": _store,
    # A cache policy changes no values.
    "createpolicy.fractional.L2::{evict_first,evict_last,evict_unchanged,evict_normal}.b64": elementwise(
        lambda _: Operation(lambda fraction: np.zeros(len(fraction), np.uint64), ("b64",), ("f32",))
    ),
}
