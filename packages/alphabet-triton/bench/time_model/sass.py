"""Machine code as `nvdisasm -c` lists it: instructions with what they read and write, and the loops they lie in."""

import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from alphabet_ptx.resources import _run as run_tool

from time_model.flow import Loop, Step, find_loops

LINE = re.compile(
    r"/\*[0-9a-f]{4,}\*/\s+(?:@(?P<no>!?)(?P<guard>U?P\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<rest>[^;]*);"
)
LABEL = re.compile(r"^\s*(?P<name>[.$\w]+):")
REGISTER = re.compile(r"(?<![\w.])(U?)(R|P)(\d+)(?![\w])")
# Opcodes without a result in a register.
SILENT = ("ST", "BAR", "BRA", "EXIT", "RED", "CALL", "RET", "NOP", "BSSY", "BSYNC", "WARPSYNC", "DEPBAR", "LDGDEPBAR",
          "LDGSTS", "MEMBAR", "ERRBAR", "CCTL", "YIELD", "NANOSLEEP", "BMOV", "BREAK")  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """An instruction: opcode with its modifiers, guard, and the registers that it writes and reads."""

    opcode: str
    guarded: bool
    writes: frozenset[str]
    reads: frozenset[str]
    step: Step
    text: str = ""

    @property
    def is_slow_call(self) -> bool:
        """Whether it calls the slow path of a division or root, which ordinary numbers do not take."""
        return self.base == "CALL" and self.step.target is None

    @property
    def base(self) -> str:
        return self.opcode.split(".")[0]


@dataclass(frozen=True)
class Code:
    """A kernel's instructions. Functions that it calls are left out: slow paths of divisions and roots."""

    instructions: tuple[Instruction, ...]

    @cached_property
    def loops(self) -> list[Loop]:
        return find_loops([instruction.step for instruction in self.instructions])


def disassemble(cubin: bytes) -> Code:
    """The machine code of a compiled kernel."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return parse(run_tool("nvdisasm", "-c", str(file)))


def parse(listing: str) -> Code:
    """The instructions of the first function in a listing."""
    labels: dict[str, int] = {}
    found: list[re.Match[str]] = []
    for line in listing.splitlines():
        label = LABEL.match(line)
        if label and label["name"].startswith("$") and found:
            break  # what follows is called, not part of the kernel
        if label:
            labels[label["name"]] = len(found)
        match = LINE.search(line)
        if match:
            found.append(match)
    return Code(tuple(_read(match, labels) for match in found))


def _read(match: re.Match[str], labels: dict[str, int]) -> Instruction:
    opcode, rest = match["opcode"], match["rest"].strip()
    guards = {match["guard"]} - {None, "PT", "UPT"} if match["guard"] else set()
    operands = [operand.strip() for operand in rest.split(",")] if rest else []
    base = opcode.split(".")[0]
    jump = re.search(r"`\(([^)]+)\)", rest) if base in ("BRA", "CALL") else None  # loops are left by calls, too
    target = labels.get(jump[1]) if jump else None
    ends = base in ("EXIT", "RET") or (target is not None and len(operands) == 1)
    step = Step(target, falls=bool(guards) or not ends)
    writes: set[str] = set()
    if not opcode.startswith(SILENT) and operands:
        first, *others = operands
        writes |= _registers(first, _width(opcode, written=True))
        while others and re.fullmatch(r"U?P\d+|U?PT", others[0]) and len(others) > 1:
            writes |= _registers(others.pop(0), 1)  # carries and second results
        operands = others
    reads = guards | {name for operand in operands for name in _registers(operand, _width(opcode, written=False))}
    return Instruction(opcode, bool(guards), frozenset(writes), frozenset(reads), step, match[0])


def _registers(operand: str, width: int) -> set[str]:
    """The registers that an operand names; one in brackets is an address, of two if it says 64."""
    names = set()
    for uniform, kind, number in REGISTER.findall(operand):
        count = 1 if kind == "P" else 2 if "[" in operand else width
        names |= {f"{uniform}{kind}{int(number) + i}" for i in range(count)}
    return names


def _width(opcode: str, *, written: bool) -> int:
    """How many registers an operand takes."""
    if opcode.startswith(("HMMA", "IMMA")):
        return 4 if written or "16816" in opcode else 2
    if opcode.startswith(("D", "CS2R")) and not opcode.startswith("DEPBAR"):
        return 2
    sizes = re.findall(r"\.(128|64)(?=\.|$)", opcode)
    if sizes:
        return int(sizes[0]) // 32
    if opcode.startswith("LDSM"):
        return int(opcode[-1]) if opcode[-1].isdigit() else 1
    wide = written and (".WIDE" in opcode or re.match(r"(F2F\.F64|I2F\.F64|F2I\.\w*64)", opcode))
    return 2 if wide or (not written and re.match(r"(F2F\.F32\.F64|F2I\.\w+\.F64)", opcode)) else 1
