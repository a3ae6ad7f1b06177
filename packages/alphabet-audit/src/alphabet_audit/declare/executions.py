"""The executions of each family that a choice must have tried, as executions.toml declares them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from alphabet_audit.declare.declarations import PACKAGE_DATA

EAGER, COMPILED, GRAPH = "eager", "compiled", "graph"


@dataclass(frozen=True)
class ExecutionTable:
    """What executions.toml declares: a family's exact algorithms, the first being its reference.

    token_loops: algorithms that are never compiled; needs_cuda: algorithms that another device cannot run;
    since_format_2: a family's algorithms that evidence of format 1 does not know
    """

    algorithms: Mapping[str, tuple[str, ...]]
    token_loops: frozenset[str]
    needs_cuda: frozenset[str]
    since_format_2: Mapping[str, tuple[str, ...]]

    def modes(self, device: str, *, compiled: bool) -> tuple[str, ...]:
        """How algorithms are run on a device: eagerly, on CUDA or on request compiled, on CUDA also from a graph."""
        cuda = device == "cuda"
        return (EAGER, *([COMPILED] if compiled or cuda else []), *([GRAPH] if cuda else []))

    def names(self, family: str, device: str, *, compiled: bool, version: int = 2) -> tuple[str, ...]:
        """The names of a family's executions in evidence of a format, in the order in which they are tried."""
        younger = self.since_format_2.get(family, ()) if version == 1 else ()
        return tuple(
            execution_name(algorithm, mode)
            for algorithm in self.algorithms[family]
            for mode in self.modes(device, compiled=compiled)
            if (mode != COMPILED or algorithm not in self.token_loops) and algorithm not in younger
        )

    def must_run(self, name: str) -> bool:
        """Whether an execution of that name runs on any device, so that no reason excuses leaving it out."""
        return ", " not in name and name not in self.needs_cuda


def execution_name(algorithm: str, mode: str) -> str:
    """The execution's name in evidence and reports."""
    return algorithm if mode == EAGER else f"{algorithm}, {mode}"


@cache
def read_executions() -> ExecutionTable:
    """The table that comes with this package."""
    found = tomllib.loads((PACKAGE_DATA / "executions.toml").read_text(encoding="utf-8"))
    return ExecutionTable(
        {family: tuple(names) for family, names in found["algorithms"].items()},
        frozenset(found["token_loops"]),
        frozenset(found["needs_cuda"]),
        {family: tuple(names) for family, names in found["since_format_2"].items()},
    )
