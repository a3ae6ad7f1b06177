"""PTX text as a `Program`: what `execute` runs.

The grammar is the part of PTX that a compiled kernel consists of: one `.entry`, module variables, statements. Names of
nested scopes (`{ .reg .b32 t; ... }`, common in inline assembly) are made unique.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from alphabet_ptx.datatypes import size_of
from alphabet_ptx.errors import PtxError, Source


@dataclass(frozen=True)
class Register:
    """A general register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant as it is written; its value depends on the type that the instruction reads."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """A label or a variable."""

    name: str


@dataclass(frozen=True)
class Address:
    """`[base + offset]`."""

    base: "Register | Symbol | Immediate"
    offset: int


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`, or the two predicates `p|q` that one comparison sets."""

    items: "tuple[Operand, ...]"


Operand = Register | Immediate | Symbol | Address | Vector


@dataclass(frozen=True)
class Instruction:
    """One statement; `guard` is the predicate before it, `negated` if it is written `@!p`."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    line: int
    text: str
    source: Source | None


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel."""

    name: str
    kind: str
    pointer: bool


@dataclass(frozen=True)
class Variable:
    """A `.shared`, `.local` or `.global` variable; `size` is None for the dynamic shared memory `name[]`."""

    name: str
    space: str
    align: int
    size: int | None
    data: bytes = b""


@dataclass
class Program:
    """A kernel: its instructions in order, and what its names mean."""

    name: str
    threads: tuple[int, int, int]
    parameters: list[Parameter]
    variables: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    # Registers that the compiler leaves without a value on purpose, because nothing depends on it.
    implicit: set[str] = field(default_factory=set)

    @cached_property
    def written(self) -> set[str]:
        """Registers that some instruction writes."""
        targets = [operand for each in self.instructions for operand in each.operands[:1]]
        pieces = [item for target in targets for item in (target.items if isinstance(target, Vector) else (target,))]
        return {piece.name for piece in pieces if isinstance(piece, Register)}


_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?([^{]*)\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\.ptr\b[^,]*?)?([\w$]+)\s*(\[\d+\])?\s*(?:,|$)")
_VARIABLE = re.compile(
    r"\.(shared|global|const|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)\s*(\[(\d*)\])?\s*(?:=\s*\{([^}]*)\})?\s*;"
)
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+)
  | (?P<comment>//[^\n]*)
  | (?P<loc>\.loc\s[^\n]*)
  | (?P<open>\{)
  | (?P<close>\})
  | (?P<label>[\w$]+:(?!:))
  | (?P<statement>[^;]+;)
    """,
    re.VERBOSE,
)
_STATEMENT = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*);$", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_ADDRESS = re.compile(r"\[\s*([%\w.$]+)\s*(?:\+?\s*(-?\s*\w+))?\s*\]$")
_IMPLICIT = re.compile(r"implicit-def:\s*(%[\w$]+)")
_PLACE = re.compile(r"([^\s@\[\]]+):(\d+):\d+")


@lru_cache(maxsize=64)
def parse(ptx: str) -> Program:
    """The kernel in a PTX module; there must be exactly one."""
    entries = list(_ENTRY.finditer(ptx))
    if len(entries) != 1:
        raise PtxError(f"ptx must contain one .entry; found {len(entries)}")
    (entry,) = entries
    threads = _THREADS.search(entry[3])
    if threads is None:
        raise PtxError(f"kernel {entry[1]} must state its block size by .reqntid or .maxntid")
    x, y, z = (int(size or 1) for size in threads.groups())
    program = Program(
        name=entry[1],
        threads=(x, y, z),
        parameters=[_parse_parameter(found) for found in _PARAMETER.finditer(entry[2] or "")],
        variables=[_parse_variable(found) for found in _VARIABLE.finditer(_without_comments(ptx[: entry.start()]))],
    )
    files = {int(number): path for number, path in _FILE.findall(ptx)}
    _Body(program, files).read(ptx, entry.end())
    return program


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text) if "//" in text else text


def _parse_parameter(found: re.Match[str]) -> Parameter:
    kind, pointer, name, array = found.groups()
    if array:
        raise PtxError(f"parameter {name} is passed by value as an array; execute takes pointers and numbers")
    return Parameter(name=name, kind=kind, pointer=pointer is not None)


def _parse_variable(found: re.Match[str]) -> Variable:
    space, align, kind, name, array, count, data = found.groups()
    size = None if array and not count else int(count or 1) * size_of(kind)
    if re.search(r"[^\s\dxa-fA-F,-]", data or ""):
        raise PtxError(f"variable {name} must be initialised by integers; found {data}")
    values = b"".join(
        int(text, 0).to_bytes(size_of(kind), "little") for text in (data or "").split(",") if text.strip()
    )
    return Variable(name=name, space=space, align=int(align or size_of(kind)), size=size, data=values)


class _Body:
    """The statements between the braces of the kernel."""

    def __init__(self, program: Program, files: dict[int, str]) -> None:
        self.program = program
        self.files = files
        self.scopes: list[dict[str, str]] = [{}]
        self.source: Source | None = None

    def read(self, text: str, position: int) -> None:
        line = text.count("\n", 0, position) + 1
        while self.scopes:
            token = _TOKEN.match(text, position)
            if token is None:
                raise PtxError("the kernel's body does not end", line=line)
            content = token.group()
            match token.lastgroup:
                case "open":
                    self.scopes.append({})
                case "close":
                    self.scopes.pop()
                case "label":
                    self.program.labels[content[:-1]] = len(self.program.instructions)
                case "loc":
                    self.source = _parse_loc(content, self.files)
                case "comment":
                    self.program.implicit.update(_IMPLICIT.findall(content))
                case "statement":
                    self.read_statement(_without_comments(content), line)
                case _:
                    pass
            line += content.count("\n")
            position = token.end()

    def read_statement(self, statement: str, line: int) -> None:
        if statement.startswith(".reg"):
            self.declare_registers(statement, line)
        elif variable := _VARIABLE.match(statement):
            self.program.variables.append(_parse_variable(variable))
        elif not statement.startswith(".pragma"):
            found = _STATEMENT.match(statement)
            if found is None:
                raise PtxError(f"cannot read the statement {' '.join(statement.split())!r}", line=line)
            negated, guard, opcode, operands = found.groups()
            self.program.instructions.append(
                Instruction(
                    opcode=opcode,
                    operands=tuple(self.read_operands(operands, line)),
                    guard=Register(self.resolve(guard)) if guard else None,
                    negated=bool(negated),
                    line=line,
                    text=" ".join(statement.rstrip(";").split()),
                    source=self.source,
                )
            )

    def declare_registers(self, statement: str, line: int) -> None:
        found = re.match(r"\.reg\s+\.(\w+)\s+(.*);$", statement, re.DOTALL)
        if found is None:
            raise PtxError(f"cannot read the declaration {statement!r}", line=line)
        kind, names = found.groups()
        depth = len(self.scopes) - 1
        for name in names.split(","):
            numbered = re.match(r"\s*([%\w$]+)(?:<(\d+)>)?\s*$", name)
            if numbered is None:
                raise PtxError(f"cannot read the declaration {statement!r}", line=line)
            stem, count = numbered.groups()
            declared = [stem] if count is None else [f"{stem}{i}" for i in range(int(count))]
            for register in declared:
                unique = f"{register}@{line}" if depth else register
                self.scopes[-1][register] = unique
                self.program.registers[unique] = kind

    def resolve(self, name: str) -> str:
        if len(self.scopes) == 1:
            return self.scopes[0].get(name, name)
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)

    def read_operands(self, text: str, line: int) -> Iterator[Operand]:
        if "|" in text:
            text = re.sub(r"\s*\|\s*", "|", text)
        for operand in _OPERAND.findall(text):
            yield self.read_operand(operand, line)

    def read_operand(self, text: str, line: int) -> Operand:
        if text[0] == "%" and "|" not in text:
            return Register(self.resolve(text))
        if text.startswith("{"):
            return Vector(tuple(self.read_operands(text[1:-1], line)))
        if "|" in text:
            return Vector(tuple(self.read_operand(part, line) for part in text.split("|")))
        if text.startswith("["):
            found = _ADDRESS.match(text)
            if found is None:
                raise PtxError(f"cannot read the address {text}", line=line)
            base = self.read_operand(found[1], line)
            assert isinstance(base, Register | Symbol | Immediate)  # the pattern lets nothing else through
            return Address(base, int((found[2] or "0").replace(" ", ""), 0))
        name = self.resolve(text)
        if name in self.program.registers or text.startswith("%"):
            return Register(name)
        if re.match(r"-?\d", text):
            return Immediate(text)
        return Symbol(text)


def _parse_loc(directive: str, files: dict[int, str]) -> Source | None:
    """`.loc file line column`, with the chain of calls in `inlined_at` or in the comment that LLVM writes."""
    command, _, comment = directive.partition("//")
    numbers = command.split()
    source = Source(files.get(int(numbers[1]), f"file {numbers[1]}"), int(numbers[2]))
    inlined = re.search(r"inlined_at\s+(\d+)\s+(\d+)", command)
    if inlined:
        return Source(source.file, source.line, Source(files.get(int(inlined[1]), ""), int(inlined[2])))
    callers = _PLACE.findall(comment)[1:]
    if callers:
        name, line = callers[-1]  # the outermost: the kernel's own line
        path = next((path for path in files.values() if path.rpartition("/")[2] == name), name)
        return Source(source.file, source.line, Source(path, int(line)))
    return source if source.line else None
