"""Functions that a GPU's driver provides: `__assertfail` and `vprintf`, behind tl.device_assert and tl.device_print."""

import re
import sys

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.errors import PtxError
from alphabet_ptx.machine import Binder, Block, Step
from alphabet_ptx.memory import ORIGIN
from alphabet_ptx.program import Instruction, Operand, Symbol

_SPECIFICATION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(hh|h|ll|l|z)?([diuoxXcfFeEgGaps%])")


def _argument(block: Block, operand: Operand, thread: int, size: int) -> int:
    """An argument of a call, as an unsigned integer."""
    assert isinstance(operand, Symbol)  # the parser puts nothing else into a call
    place = thread * block.local.stride + block.symbols[operand.name]
    return int.from_bytes(block.local.bytes[place : place + size].tobytes(), "little")


def _text(block: Block, address: int) -> str:
    """The characters from an address on, up to a zero."""
    start = address - ORIGIN
    characters = block.memory.bytes[start : start + 4096].tobytes() if 0 <= start < block.memory.size else b""
    return characters.partition(b"\0")[0].decode(errors="replace")


def _threads(block: Block, mask: Mask | None) -> Array:
    return block.all_threads if mask is None else np.flatnonzero(mask)


def _fail(instruction: Instruction, block: Block) -> Step:
    """__assertfail(message, file, line, function, size of a character): stops the kernel."""
    message, file, line = instruction.operands[:3]

    def step(mask: Mask | None) -> None:
        thread = int(_threads(block, mask)[0])
        text, path = (_text(block, _argument(block, operand, thread, 8)) for operand in (message, file))
        where = f"{path.rpartition('/')[2]}:{_argument(block, line, thread, 4)}"
        raise PtxError(f"device assertion failed: {text} ({where})", thread=thread)

    return step


def _print(instruction: Instruction, block: Block) -> Step:
    """vprintf(format, address of the values): writes to standard output, thread by thread; returns how many values."""
    result, template, values = instruction.operands

    def step(mask: Mask | None) -> None:
        assert isinstance(result, Symbol)
        for thread in map(int, _threads(block, mask)):
            first = _argument(block, values, thread, 8)
            text, count = _format(block, _text(block, _argument(block, template, thread, 8)), first, thread)
            sys.stdout.write(text)
            place = np.array([block.symbols[result.name]])
            block.local.store(place, 4, [np.array([count], np.uint32)], np.array([thread]), block.pc)

    return step


def _format(block: Block, template: str, address: int, thread: int) -> tuple[str, int]:
    """A template of C with its values, which lie at an address of the thread's own memory, aligned to their size."""
    place, count = address, 0

    def convert(found: re.Match[str]) -> str:
        nonlocal place, count
        flags, length, kind = found.groups()
        if kind == "%":
            return "%"
        size = 8 if kind in "fFeEgGaps" or length in ("l", "ll", "z") else 4
        place = -(-place // size) * size
        where = block.local.offsets(np.array([place]), size, np.array([thread]), write=False)[0]
        data = block.local.bytes[where : where + size].tobytes()
        place, count = place + size, count + 1
        if kind in "fFeEgGa":
            number = float(np.frombuffer(data, np.float64)[0])
            return number.hex() if kind == "a" else f"%{flags}{kind}" % number
        whole = int.from_bytes(data, "little", signed=kind in "di")
        if kind == "s":
            return f"%{flags}s" % _text(block, whole)
        return hex(whole) if kind == "p" else f"%{flags}{'d' if kind in 'iu' else kind}" % whole

    return _SPECIFICATION.sub(convert, template), count


TABLE: dict[str, Binder] = {"call.__assertfail": _fail, "call.vprintf": _print}
