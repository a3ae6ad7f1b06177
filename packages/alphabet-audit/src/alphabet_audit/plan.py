"""What a run will do, worked out before it begins: the ledger's list and the evaluator's list are this one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from alphabet_audit.cases import PLANS, Case
from alphabet_audit.choosing import Choosing
from alphabet_audit.declarations import Declarations
from alphabet_audit.designs import INFERENCE, NULL, PHASES, Design, Row
from alphabet_audit.timing import PROTOCOL, Protocol

ALL = "all"
# The gate that a row of a phase must pass at the very shape that it is timed at.
PHASE_GATES = {INFERENCE: "forward", "step": "gradients"}
SEED = 7


@dataclass(frozen=True)
class Plan:
    """A run of the ledger. Only one of all designs tries all gates first; a part has those of its own rows."""

    scope: str
    declarations: Declarations
    protocol: Protocol = PROTOCOL
    plans: Mapping[str, tuple[Case, ...]] = field(default_factory=lambda: PLANS)

    @property
    def designs(self) -> tuple[Design, ...]:
        """Those of the scope, in the order of the file."""
        return self.declarations.designs.select(self.scope)

    @property
    def families(self) -> tuple[str, ...]:
        """In the order of the paper's table."""
        return tuple(self.declarations.designs.families)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The gates of SPEC section 4."""
        return self.plans["full"] if self.scope == ALL else ()

    @property
    def choosings(self) -> tuple[Choosing, ...]:
        """Every choice of an execution that the rows need."""
        controls = dict.fromkeys(design.control for design in self.designs)
        return tuple(Choosing(*each) for each in product(controls, self.families, PHASES))

    @property
    def null_rows(self) -> tuple[Row, ...]:
        """ALPHABET against itself, once per design and phase."""
        return tuple(Row(design, NULL, phase) for design, phase in product(self.designs, PHASES))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The phase rows of all cells."""
        return tuple(Row(*each) for each in product(self.designs, self.families, PHASES))

    def to_record(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "scope": self.scope,
            "designs": [design.key for design in self.designs],
            "families": list(self.families),
            "protocol": self.protocol.to_record(),
            "seed": SEED,
            "gates": [case.key for case in self.cases],
        }
