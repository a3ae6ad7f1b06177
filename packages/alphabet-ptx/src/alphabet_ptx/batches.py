"""Several programs of a grid at once: their threads are the threads of one large block.

The definition of a launch is one program after another. Programs that have nothing to do with each other cannot tell
the difference: each takes the same steps, in the same order, on the same values. So a batch of programs runs at once,
and everything that they touch is followed (see `conflicts`). If one touches what another one writes, if threads of one
race, if a program faults or seems to wait, then the batch proves nothing: its results are dropped, and the whole launch
runs again by the definition. Whatever is reported, apart from counts, is reported by the definition.

A kernel is not tried if it says itself that its programs communicate: by atomics whose results it uses, or by accesses
that order memory (volatile, relaxed, acquire, release). Atomics whose results nobody reads are put off to the end of a
batch (see `deferred`). Kernels that print are not tried either, nor those that use the asynchronous units of sm_90,
which have one state per block, nor other orders than the usual one.

Of two NaNs that are added or multiplied numpy keeps one or the other, depending on how many numbers it computes at
once. So results are the same to the byte but for the payload of such a NaN, which PTX leaves open.
"""

import re

import numpy as np

from alphabet_ptx.atomics import is_deferrable
from alphabet_ptx.datatypes import WARP
from alphabet_ptx.program import Instruction, Program

# Threads that run at once. More gain little: arrays of this size keep numpy busy, and their registers fill caches.
THREADS = 4096

_STRONG = re.compile(r"(ld|st)\..*\bglobal\b")
_ORDERED = {"volatile", "relaxed", "acquire", "release"}
_UNITS = re.compile(r"wgmma|mbarrier|tensormap|cp\.async\.bulk|cp\.reduce|fence\.proxy|call\.vprintf")


def plan_batches(count: int, size: int, *, most: int | None = None) -> list[int]:
    """The sizes of the batches in which `count` programs of `size` threads run, at most `most` in one."""
    fewest = -(-count // (max(THREADS // size, 1) if most is None else most))
    # A batch of another size has to be bound on its own: better a few batches more, all alike.
    batches = min(range(fewest, 2 * fewest), key=lambda number: (count % number, number))
    return [count // batches] * batches + ([count % batches] if count % batches else [])


def communicates_never(program: Program) -> bool:
    """Whether the programs of a kernel may have nothing to do with each other, as far as its instructions say."""
    size = int(np.prod(program.threads))
    whole = size % WARP == 0 and size & (size - 1) == 0  # as Triton has them, and as `conflicts` numbers them
    return whole and not program.swapped and all(_stands_alone(each, program) for each in program.instructions)


def _stands_alone(instruction: Instruction, program: Program) -> bool:
    opcode = instruction.opcode
    if _UNITS.match(opcode):
        return False
    if opcode.startswith(("atom.", "red.")):
        return "shared" in opcode or is_deferrable(instruction, program)
    return not (_STRONG.match(opcode) and _ORDERED & set(opcode.split(".")))
