"""The one table of instructions: a pattern of opcodes, and how such an instruction is bound to a block.

In a pattern `[x]` is optional and `{x,y}` a choice. An opcode that no pattern matches is an error: nothing is guessed.
"""

import re
from functools import cache

import numpy as np

from alphabet_ptx import (
    atomics,
    clusters,
    collectives,
    conversions,
    copies,
    externals,
    integers,
    matrices,
    mbarriers,
    reals,
    tensor_copies,
    tensormaps,
    transfers,
    warpgroups,
)
from alphabet_ptx.datatypes import Mask
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.program import Instruction
from alphabet_ptx.proxies import AsyncProxy


def _no_effect(_: Instruction, __: Block) -> Step:
    """An instruction that waits, or orders what another unit does, has no effect here: steps run one after another."""
    return lambda _: None


def _proxy_fence(_: Instruction, block: Block) -> Step:
    return block.unit(AsyncProxy).fence


def _fence(instruction: Instruction, block: Block) -> Step:
    """A fence orders the accesses of programs on both sides of it, unless it reaches only the block."""
    wide = "cta" not in instruction.opcode.split(".")

    def step(mask: Mask | None) -> None:
        if wide:
            block.clock.fence(block.active(mask))

    return step


def _trap(_: Instruction, __: Block) -> Step:
    def step(mask: Mask | None) -> None:
        raise PtxError("trap: the kernel stopped itself", thread=0 if mask is None else int(np.argmax(mask)))

    return step


def _jump(instruction: Instruction, _: Block) -> Step:
    raise AssertionError(f"{instruction.opcode} is executed by the schedule itself")


BRANCHES = ("bra", "bra.uni")
EXITS = ("ret", "ret.uni", "exit")

CONTROL: dict[str, Binder] = {
    "bra[.uni]": _jump,
    "ret[.uni]": _jump,
    "exit": _jump,
    "trap": _trap,
    "membar.{cta,gl,sys}": _fence,
    "fence[.{acq_rel,sc}].{cta,gpu,sys}": _fence,
    "fence.proxy.async[.shared::cta]": _proxy_fence,
    "griddepcontrol.{wait,launch_dependents}": _no_effect,
    "nanosleep.u32": _no_effect,
}

TABLE: dict[str, Binder] = (
    integers.TABLE
    | reals.TABLE
    | conversions.TABLE
    | collectives.TABLE
    | matrices.TABLE
    | transfers.TABLE
    | copies.TABLE
    | atomics.TABLE
    | warpgroups.TABLE
    | mbarriers.TABLE
    | tensormaps.TABLE
    | tensor_copies.TABLE
    | clusters.TABLE
    | externals.TABLE
    | CONTROL
)


def pattern_to_regex(pattern: str) -> re.Pattern[str]:
    """A pattern of the table as a regular expression."""
    table = str.maketrans({"[": "(?:", "]": ")?", "{": "(?:", "}": ")", ",": "|", ".": r"\."})
    return re.compile(pattern.translate(table))


_PATTERNS = [(pattern_to_regex(pattern), pattern) for pattern in TABLE]


@cache
def find_pattern(opcode: str) -> str | None:
    """The table's pattern for an opcode, or None if no pattern matches it."""
    return next((pattern for regex, pattern in _PATTERNS if regex.fullmatch(opcode)), None)


def bind(instruction: Instruction, block: Block) -> Step:
    """The step that executes an instruction."""
    pattern = find_pattern(instruction.opcode)
    if pattern is None:
        raise PtxError(f"unknown instruction {instruction.opcode}")
    return TABLE[pattern](instruction, block)
