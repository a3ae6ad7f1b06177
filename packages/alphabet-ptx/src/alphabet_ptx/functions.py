"""Functions of a PTX module, and calls of them.

A call is executed by putting the function's statements in its place, with registers, labels and variables of their own:
a GPU's compiler does the same with most functions, and PTX from Triton has no recursion.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from alphabet_ptx.errors import PtxError

_FUNCTION = re.compile(r"\.func\s+(?:\(([^()]*)\)\s*)?([\w$.]+)\s*(?:\(([^()]*)\))?([^{};]*)([{;])")
_CALL = re.compile(r"call(?:\.uni)?\s+(?:\(([^()]*)\)\s*,\s*)?([%\w$.]+)\s*(?:,\s*\(([^()]*)\)\s*)?;$")
_NAME = re.compile(r"([\w$]+)\s*(?:\[\d*\])?\s*(?:,|$)")


@dataclass(frozen=True)
class Function:
    """A `.func`: the names of its results and parameters, and where in the text its body starts."""

    name: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    body: int


@dataclass(frozen=True)
class Call:
    """A `call`: the function's name, and the variables that hold its results and arguments."""

    name: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]


def find_functions(ptx: str) -> dict[str, Function]:
    """The functions of a module that have a body, by name."""
    found = (match for match in _FUNCTION.finditer(ptx) if match[5] == "{")
    return {match[2]: Function(match[2], _names(match[1]), _names(match[3]), match.end()) for match in found}


def _names(declarations: str | None) -> tuple[str, ...]:
    """The names that a list of declarations ends its parts with."""
    without_comments = re.sub(r"//[^\n]*", "", declarations or "")
    return tuple(_NAME.findall(without_comments.strip()))


def read_call(statement: str) -> Call:
    """The parts of a `call`, written without its guard."""
    found = _CALL.match(statement)
    if found is None or found[2].startswith("%"):
        raise PtxError(f"cannot read the call {' '.join(statement.split())!r}; a call names its function")
    return Call(found[2], _names(found[1]), _names(found[3]))


def pass_arguments(call: Call, function: Function) -> Mapping[str, str]:
    """What the names of a function's parameters and results mean in a call of it: the caller's variables."""
    given, wanted = (*call.results, *call.arguments), (*function.results, *function.parameters)
    if len(call.results) != len(function.results) or len(given) != len(wanted):
        raise PtxError(
            f"call of {call.name} with {len(call.arguments)} arguments and {len(call.results)} results; "
            f"it has {len(function.parameters)} and {len(function.results)}"
        )
    return dict(zip(wanted, given, strict=True))
