"""Instructions that compute each thread's result from that thread's operands alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Instruction, Operand, Register, Vector
from alphabet_ptx.registers import CARRY

Compute = Callable[..., "Array | tuple[Array, ...]"]
# From which bytes of each source are unknown (threads, bytes), and the sources, to those of each result.
Trace = Callable[[list[Array], list[Array]], Sequence[Array]]


@dataclass(frozen=True)
class Operation:
    """What an instruction computes: `compute` maps arrays of the types `sources` to arrays of the types `results`.

    `carry_in` and `carry_out` add the carry flag as last source and last result. `undefined` says for which operands
    PTX leaves the result open, which is then unknown for the `reason`. `trace`: which bytes of the results are unknown
    for which of the sources; without it all of them are if any byte of a source is.
    """

    compute: Compute
    results: tuple[str, ...]
    sources: tuple[str, ...]
    carry_in: bool = False
    carry_out: bool = False
    trace: Trace | None = None
    undefined: Callable[..., Mask] | None = None
    reason: str = ""


Builder = Callable[[Instruction], Operation]


def elementwise(build: Builder) -> Binder:
    """An entry of the instruction table: `build` makes the operation of an instruction from its opcode."""

    def bind_instruction(instruction: Instruction, block: Block) -> Step:
        return bind(build(instruction), instruction, block)

    return bind_instruction


def same_type(compute: Compute, sources: int = 2, trace: Trace | None = None) -> Binder:
    """An entry of the instruction table for operands that all have the type that ends the opcode."""

    def build(instruction: Instruction) -> Operation:
        kind = parts(instruction)[-1]
        return Operation(compute, (kind,), (kind,) * sources, trace=trace)

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
    written = [block.names(target) for target in targets]
    everything = [name for part in written for name in part]
    compute, several = operation.compute, len(results) > 1
    state = block.unknown
    spread = _Spread(operation, [*given, *carried_in], sources, block, instruction.line)
    if isinstance(compute, np.ufunc) and operation.undefined is None:
        target = block.whole(targets[0], results[0])
        if target is not None:
            return _into(target, everything[0], compute, sources, spread)

    def step(mask: Mask | None) -> None:
        unknown: Sequence[Array] | None = None
        for name in names:
            if state[name] is not None:
                unknown = spread.find(mask, len(written))
                break
        if operation.undefined is not None:
            unknown = spread.add_undefined(unknown, mask)
        value = compute(*sources)
        if several:
            for write, result in zip(writers, value, strict=False):
                write(result, mask)
        else:
            writers[0](value, mask)  # type: ignore[arg-type]  # one result is an array
        if unknown is not None:
            spread.mark(written, mask, unknown)
            return
        for name in everything:
            if state[name] is not None:
                block.mark_written(name, mask)

    return step


def _into(target: Array, written: str, compute: np.ufunc, sources: list[Array], spread: "_Spread") -> Step:
    """The step of an instruction that is one function of numpy: its result goes straight into the register."""
    block, names = spread.block, spread.names
    state = block.unknown

    def step(mask: Mask | None) -> None:
        unknown: Sequence[Array] | None = None
        for name in names:
            if state[name] is not None:
                unknown = spread.find(mask, 1)
                break
        if mask is None:
            compute(*sources, out=target)
        else:
            compute(*sources, out=target, where=mask)
        if unknown is not None:
            spread.mark([[written]], mask, unknown)
        elif state[written] is not None:
            block.mark_written(written, mask)

    return step


class _Spread:
    """How what is unknown spreads from the sources of an instruction to its results."""

    def __init__(
        self, operation: Operation, given: list[Operand], sources: list[Array], block: Block, line: int
    ) -> None:
        self.operation = operation
        self.given = [block.names(operand) for operand in given]
        self.names = block.names(*given)
        self.sizes = [source.dtype.itemsize * (source.size // block.threads) for source in sources]
        self.sources = sources
        self.block = block
        self.line = line
        self.cause = ""

    def find(self, mask: Mask | None, results: int) -> Sequence[Array] | None:
        """Per result the threads in which it is unknown, or with a trace the bytes; None if nothing is."""
        block = self.block
        unknown = block.unknown_in(self.names, mask)
        if unknown is None:
            return None
        self.cause = block.explain(self.names)
        if self.operation.trace is None:
            return [unknown] * results
        masks = [
            block.unknown_bytes(name[0], size) if name else np.zeros((block.threads, size), np.bool_)
            for name, size in zip(self.given, self.sizes, strict=True)
        ]
        return self.operation.trace(masks, self.sources)

    def add_undefined(self, unknown: Sequence[Array] | None, mask: Mask | None) -> Sequence[Array] | None:
        """Add the active threads for whose operands PTX leaves the result open."""
        assert self.operation.undefined is not None
        bad = self.operation.undefined(*self.sources)
        if mask is not None:
            bad = bad & mask
        if not bad.any():
            return unknown
        self.cause = f"{self.operation.reason} in PTX line {self.line}"
        return [bad] if unknown is None else [part | bad for part in unknown]

    def mark(self, written: list[list[str]], mask: Mask | None, unknown: Sequence[Array]) -> None:
        """Note for each result what is unknown of it."""
        for names, part in zip(written, unknown, strict=False):
            for name in names:
                if part.ndim == 2:
                    self.block.mark_bytes(name, mask, part, self.cause)
                else:
                    self.block.mark_written(name, mask, part, self.cause)
