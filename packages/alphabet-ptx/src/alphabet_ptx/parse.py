"""PTX text as a `Program`: what `execute` runs.

The grammar is the part of PTX that a compiled kernel consists of: one `.entry`, the functions that it calls, module
variables, statements. Names of nested scopes (`{ .reg .b32 t; ... }`, common in inline assembly) and of functions,
whose statements stand in the place of each call, are made unique.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from alphabet_ptx.datatypes import size_of
from alphabet_ptx.errors import PtxError, Source
from alphabet_ptx.functions import Function, find_functions, pass_arguments, read_call
from alphabet_ptx.places import add_caller, find_files, read_loc
from alphabet_ptx.program import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Parameter,
    Program,
    Register,
    Symbol,
    Variable,
    Vector,
)

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?([^{]*)\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\.ptr\b[^,]*?)?([\w$]+)\s*(\[\d+\])?\s*(?:,|$)")
_VARIABLE = re.compile(
    r"\.(shared|global|const|local|param)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)\s*(\[(\d*)\])?\s*(?:=\s*\{([^}]*)\})?\s*;"
)
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
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
_ADDRESS = re.compile(r"\[\s*([%\w.$]+)\s*(?:\+?\s*(-?\s*\w+))?\s*(?:,\s*\{([^}]*)\})?\s*\]$")


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
        target=int(target[1]) if (target := _TARGET.search(ptx)) else 0,
        parameters=[_parse_parameter(found) for found in _PARAMETER.finditer(entry[2] or "")],
        variables=[
            _parse_variable(found)
            for found in _VARIABLE.finditer(_without_comments(ptx[: entry.start()]))
            if found[1] not in ("local", "param")  # those are in the functions before the kernel
        ],
    )
    _Body(program, _Module(ptx, find_files(ptx), find_functions(ptx))).read(entry.end())
    return program


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text) if "//" in text else text


def _parse_parameter(found: re.Match[str]) -> Parameter:
    kind, pointer, name, array = found.groups()
    size = size_of(kind) * int(array.strip("[]") if array else 1)
    return Parameter(name=name, kind=kind, pointer=pointer is not None, size=size)


def _parse_variable(found: re.Match[str]) -> Variable:
    space, align, kind, name, array, count, data = found.groups()
    size = None if array and not count else int(count or 1) * size_of(kind)
    if re.search(r"[^\s\dxa-fA-F,-]", data or ""):
        raise PtxError(f"variable {name} must be initialised by integers; found {data}")
    values = b"".join(
        int(text, 0).to_bytes(size_of(kind), "little") for text in (data or "").split(",") if text.strip()
    )
    return Variable(name=name, space=space, align=int(align or size_of(kind)), size=size, data=values)


@dataclass(frozen=True)
class _Module:
    """The text, and what is found by name or number in all of it."""

    ptx: str
    files: dict[int, str]
    functions: dict[str, Function]


class _Body:
    """The statements between the braces of the kernel, or of a function in the place of a call.

    `within` has the functions whose bodies these statements are in, `names` what the function's parameters mean, and
    `suffix` makes the function's other names unique among all calls.
    """

    def __init__(
        self,
        program: Program,
        module: _Module,
        *,
        within: tuple[str, ...] = (),
        names: Mapping[str, str] | None = None,
        caller: Source | None = None,
    ) -> None:
        self.program = program
        self.module = module
        self.within = within
        self.scopes: list[dict[str, str]] = [dict(names or {})]
        self.labels: list[tuple[int, dict[str, str]]] = [(len(program.instructions), {})]
        self.caller = caller
        self.source = caller
        self.suffix = f"@{len(program.instructions)}/{len(within)}" if within else ""
        self.end = f"end of the call{self.suffix}"

    def read(self, position: int) -> None:
        text = self.module.ptx
        line = text.count("\n", 0, position) + 1
        while self.scopes:
            token = _TOKEN.match(text, position)
            if token is None:
                raise PtxError("the kernel's body does not end", line=line)
            content = token.group()
            match token.lastgroup:
                case "open":
                    self.scopes.append({})
                    self.labels.append((len(self.program.instructions), {}))
                case "close":
                    self.scopes.pop()
                    self.rename_labels(*self.labels.pop())
                case "label":
                    name = content[:-1] + self.suffix
                    unique = f"{name}@{line}" if len(self.scopes) > 1 else name
                    self.labels[-1][1][name] = unique
                    self.program.labels[unique] = len(self.program.instructions)
                case "loc":
                    self.source = add_caller(read_loc(content, self.module.files), self.caller)
                case "statement":
                    self.read_statement(_without_comments(content), line)
                case _:
                    pass
            line += content.count("\n")
            position = token.end()
        if self.within:
            self.program.labels[self.end] = len(self.program.instructions)

    def read_statement(self, statement: str, line: int) -> None:
        if statement.startswith(".reg"):
            self.declare_registers(statement, line)
        elif variable := _VARIABLE.match(statement):
            self.declare_variable(_parse_variable(variable), line)
        elif not statement.startswith(".pragma"):
            found = _STATEMENT.match(statement)
            if found is None:
                raise PtxError(f"cannot read the statement {' '.join(statement.split())!r}", line=line)
            negated, guard, opcode, operands = found.groups()
            instruction = Instruction(
                opcode=opcode,
                operands=(),
                guard=Register(self.resolve(guard)) if guard else None,
                negated=bool(negated),
                line=line,
                text=" ".join(statement.rstrip(";").split()),
                source=self.source,
            )
            if opcode in ("call", "call.uni"):
                self.insert_function(instruction, f"{opcode} {operands};")
            elif self.within and opcode in ("ret", "ret.uni"):
                self.jump(instruction, self.end)
            elif opcode in ("bra", "bra.uni"):
                self.jump(instruction, operands.strip() + self.suffix)
            else:
                read = tuple(self.read_operands(operands, line))
                self.program.instructions.append(replace(instruction, operands=read))

    def jump(self, instruction: Instruction, label: str) -> None:
        """Append a branch with the guard of an instruction."""
        self.program.instructions.append(replace(instruction, opcode="bra", operands=(Symbol(label),)))

    def rename_labels(self, start: int, labels: dict[str, str]) -> None:
        """Let the branches of a scope, all instructions from `start` on, go to the labels of that scope."""
        for i, each in enumerate(self.program.instructions[start:], start):
            match each.operands:
                case (Symbol(name),) if name in labels and each.opcode == "bra":
                    self.program.instructions[i] = replace(each, operands=(Symbol(labels[name]),))
                case _:
                    pass

    def insert_function(self, instruction: Instruction, statement: str) -> None:
        """Put a function's statements in the place of a call; one without a body becomes the instruction call.name."""
        call = read_call(statement)
        function = self.module.functions.get(call.name)
        if function is None:
            operands = tuple(Symbol(self.resolve(name)) for name in (*call.results, *call.arguments))
            self.program.instructions.append(replace(instruction, opcode=f"call.{call.name}", operands=operands))
            return
        if call.name in self.within:
            raise PtxError(f"function {call.name} calls itself; recursion is not covered", line=instruction.line)
        names = {name: self.resolve(given) for name, given in pass_arguments(call, function).items()}
        within = (*self.within, call.name)
        body = _Body(self.program, self.module, within=within, names=names, caller=instruction.source)
        if instruction.guard is not None:
            self.jump(replace(instruction, negated=not instruction.negated), body.end)
        body.read(function.body)

    def declare_variable(self, variable: Variable, line: int) -> None:
        """Add a variable; what a function's callers and the function hand each other is in each thread's own memory."""
        if variable.space in ("local", "param"):
            unique = self.unique(variable.name, line)
            self.scopes[-1][variable.name] = unique
            variable = replace(variable, name=unique, space="local")
        elif variable.name in (each.name for each in self.program.variables):
            return  # of a function that is called more than once
        self.program.variables.append(variable)

    def unique(self, name: str, line: int) -> str:
        """The name among all scopes and calls of what is declared as `name` in this scope."""
        return f"{name}@{line}{self.suffix}" if len(self.scopes) > 1 else name + self.suffix

    def declare_registers(self, statement: str, line: int) -> None:
        found = re.match(r"\.reg\s+\.(\w+)\s+(.*);$", statement, re.DOTALL)
        if found is None:
            raise PtxError(f"cannot read the declaration {statement!r}", line=line)
        kind, names = found.groups()
        for name in names.split(","):
            numbered = re.match(r"\s*([%\w$]+)(?:<(\d+)>)?\s*$", name)
            if numbered is None:
                raise PtxError(f"cannot read the declaration {statement!r}", line=line)
            stem, count = numbered.groups()
            declared = [stem] if count is None else [f"{stem}{i}" for i in range(int(count))]
            for register in declared:
                unique = self.unique(register, line)
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
            coordinates = tuple(self.read_operands(found[3] or "", line))
            return Address(base, int((found[2] or "0").replace(" ", ""), 0), coordinates)
        name = self.resolve(text)
        if name in self.program.registers or text.startswith("%"):
            return Register(name)
        if re.match(r"-?\d", text):
            return Immediate(text)
        return Symbol(name)
