"""What a run of the ledger will do, worked out before it begins: the ledger follows it, the evaluator checks it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from alphabet_audit.declare.cases import PLANS, Case
from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALL, ALPHABET, PHASES, Design, Row
from alphabet_audit.protocol.execution_choice import ExecutionChoice
from alphabet_audit.protocol.repeats import PROTOCOL, Protocol

SEED = 7


@dataclass(frozen=True)
class Plan:
    """A run of the ledger. Only the scope "all" begins with the parity gates; every scope has the gates of its rows."""

    scope: str
    declarations: Declarations
    protocol: Protocol = PROTOCOL
    plans: Mapping[str, tuple[Case, ...]] = field(default_factory=lambda: PLANS)
    version: int = 2

    @cached_property
    def designs(self) -> tuple[Design, ...]:
        """The designs of the scope, in the order of the file."""
        return self.declarations.designs.select(self.scope)

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the families, in the order of the paper's table."""
        return tuple(self.declarations.designs.families)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The parity gates that a whole ledger tries first."""
        return self.plans["full"] if self.scope == ALL else ()

    @cached_property
    def choices(self) -> tuple[ExecutionChoice, ...]:
        """Every choice of an execution that the rows need."""
        sizings = dict.fromkeys(design.sizing for design in self.designs)
        return tuple(ExecutionChoice(*each) for each in product(sizings, self.families, PHASES))

    @cached_property
    def null_rows(self) -> tuple[Row, ...]:
        """The rows of ALPHABET against itself, one per design and phase."""
        return tuple(Row(design, ALPHABET, phase) for design, phase in product(self.designs, PHASES))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all cells, two per cell."""
        return tuple(Row(*each) for each in product(self.designs, self.families, PHASES))

    @cached_property
    def steps(self) -> tuple[tuple[str, str, int], ...]:
        """Every record of an uninterrupted run behind its beginning and its session, in order, as kind and key.

        The third entry is the number of the step behind the row that it belongs to, where a row that fails goes on.
        """
        found = [("parity", case.key, 0) for case in self.cases] + [("choice", each.key, 0) for each in self.choices]
        for design, family, phase in product(self.designs, (ALPHABET, *self.families), PHASES):
            key = Row(design, family, phase).key
            kinds = [
                "gate",
                "start",
                *["group"] * self.protocol.groups,
                *(["after"] if self.version > 1 else []),
                "row",
            ]
            end = len(found) + len(kinds)
            found += [(kind, key, end) for kind in kinds]
        return tuple(found)

    def to_record(self) -> dict[str, Any]:
        """The plan as the manifest holds it."""
        return {
            "scope": self.scope,
            "designs": [design.key for design in self.designs],
            "families": list(self.families),
            "protocol": self.protocol.to_record(),
            "seed": SEED,
            "gates": [case.key for case in self.cases],
        }
