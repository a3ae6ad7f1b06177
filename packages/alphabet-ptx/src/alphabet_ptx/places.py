"""Where in the kernel's Python source an instruction of the PTX comes from: the directives `.file` and `.loc`."""

import re
from collections.abc import Mapping

from alphabet_ptx.errors import Source

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_PLACE = re.compile(r"([^\s@\[\]]+):(\d+):\d+")


def find_files(ptx: str) -> dict[int, str]:
    """The paths of the source files by the numbers that `.loc` gives them."""
    return {int(number): path for number, path in _FILE.findall(ptx)}


def read_loc(directive: str, files: Mapping[int, str]) -> Source | None:
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


def add_caller(source: Source | None, caller: Source | None) -> Source | None:
    """A place in a function that is called from another place."""
    if source is None:
        return caller
    return Source(source.file, source.line, add_caller(source.caller, caller))
