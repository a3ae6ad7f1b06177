"""Instructions that compute each thread's result from that thread's operands alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import CARRY, Binder, Block, Step
from alphabet_ptx.parse import Immediate, Instruction, Operand, Register, Vector

POISON_BITS = Immediate("0x7fffffff")  # a NaN in float32 and, by its lower half, in both types of half the size
Compute = Callable[..., "Array | tuple[Array, ...]"]


@dataclass(frozen=True)
class Operation:
    """What an instruction computes: `compute` maps arrays of the types `sources` to arrays of the types `results`.

    `carry_in` and `carry_out` add the carry flag as last source and last result. `refused` says for which operands
    the result is undefined by PTX; executing them is an error, `reason`. `selects`: the last source chooses one of the
    first two, and only the chosen one has to be known.
    """

    compute: Compute
    results: tuple[str, ...]
    sources: tuple[str, ...]
    carry_in: bool = False
    carry_out: bool = False
    selects: bool = False
    refused: Callable[..., Mask] | None = None
    reason: str = ""


Builder = Callable[[Instruction], Operation]


def elementwise(build: Builder) -> Binder:
    """An entry of the instruction table: `build` makes the operation of an instruction from its opcode."""

    def bind_instruction(instruction: Instruction, block: Block) -> Step:
        return bind(build(instruction), instruction, block)

    return bind_instruction


def same_type(compute: Compute, sources: int = 2) -> Binder:
    """An entry of the instruction table for operands that all have the type that ends the opcode."""

    def build(instruction: Instruction) -> Operation:
        kind = parts(instruction)[-1]
        return Operation(compute, (kind,), (kind,) * sources)

    return elementwise(build)


def parts(instruction: Instruction) -> list[str]:
    """The parts of the opcode between its dots."""
    return instruction.opcode.split(".")


def flatten(operands: Iterable[Operand]) -> list[Operand]:
    """The operands with the items of vectors in the vectors' place."""
    flat: list[Operand] = []
    for operand in operands:
        if isinstance(operand, Vector):
            flat += flatten(operand.items)
        else:
            flat.append(operand)
    return flat


def bind(operation: Operation, instruction: Instruction, block: Block) -> Step:
    """The step of an instruction: its operands found, ready to run."""
    targets = flatten(instruction.operands[:1])
    given = flatten(instruction.operands[1:])
    if instruction.opcode.startswith("mov.") and isinstance(instruction.operands[-1], Vector):
        given = [_or_poison(operand, block) for operand in given]
    carried_in = [Register(CARRY)] if operation.carry_in else []
    if operation.carry_out:
        targets.append(Register(CARRY))
    if len(given) != len(operation.sources) or len(targets) > len(operation.results) + operation.carry_out:
        raise PtxError(f"{instruction.opcode} does not take {len(instruction.operands)} operands")
    kinds = operation.sources + ("pred",) * operation.carry_in
    sources = [block.source(operand, kind) for operand, kind in zip([*given, *carried_in], kinds, strict=True)]
    names = block.names(*given, *carried_in)
    results = operation.results + ("pred",) * operation.carry_out
    writers = [block.destination(target, kind) for target, kind in zip(targets, results, strict=False)]
    written = block.names(*targets)
    compute, several = operation.compute, len(results) > 1
    state = block.unknown
    if isinstance(compute, np.ufunc) and operation.refused is None:
        target = block.whole(targets[0], results[0])
        if target is not None:
            return _into(target, written[0], compute, sources, names, block)

    def step(mask: Mask | None) -> None:
        unknown = None
        for name in names:
            if state[name] is not None:
                unknown = _spread(operation, names, sources, block, mask)
                break
        if operation.refused is not None:
            _refuse(operation, sources, mask)
        value = compute(*sources)
        if several:
            for write, result in zip(writers, value, strict=False):
                write(result, mask)
        else:
            writers[0](value, mask)  # type: ignore[arg-type]  # one result is an array
        for name in written:
            if unknown is not None or state[name] is not None:
                block.mark_written(name, mask, unknown)

    return step


def _into(target: Array, written: str, compute: np.ufunc, sources: list[Array], names: list[str], block: Block) -> Step:
    """The step of an instruction that is one function of numpy: its result goes straight into the register."""
    state = block.unknown

    def step(mask: Mask | None) -> None:
        unknown = None
        for name in names:
            if state[name] is not None:
                unknown = block.unknown_in(names, mask)
                break
        if mask is None:
            compute(*sources, out=target)
        else:
            compute(*sources, out=target, where=mask)
        if unknown is not None or state[written] is not None:
            block.mark_written(written, mask, unknown)

    return step


def _or_poison(operand: Operand, block: Block) -> Operand:
    """A piece that mov packs, or the bits of a NaN for a register that no instruction writes.

    LLVM packs such registers beside others when nothing reads them; what does read them computes NaN, and is seen.
    """
    never = isinstance(operand, Register) and operand.name in block.rows and operand.name not in block.program.written
    return POISON_BITS if never else operand


def _spread(
    operation: Operation, names: list[str], sources: list[Array], block: Block, mask: Mask | None
) -> Mask | None:
    """The threads whose result is unknown because an operand is."""
    if not operation.selects or len(names) != len(operation.sources):
        return block.unknown_in(names, mask)
    first, second, choice = (block.unknown_in([name], mask) for name in names)
    nothing = np.zeros(block.threads, np.bool_)
    chosen = np.where(sources[2], nothing if first is None else first, nothing if second is None else second)
    unknown = chosen if choice is None else chosen | choice
    return unknown if unknown.any() else None


def _refuse(operation: Operation, sources: list[Array], mask: Mask | None) -> None:
    """Raise PtxError if the result is undefined in an active thread."""
    assert operation.refused is not None
    bad = operation.refused(*sources)
    if mask is not None:
        bad = bad & mask
    if bad.any():
        raise PtxError(operation.reason, thread=int(np.argmax(bad)))
