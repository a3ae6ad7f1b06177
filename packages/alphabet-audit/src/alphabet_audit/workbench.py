"""What the ledger needs of the world: a bench that makes arms. The real one is in `arms`; tests pass their own."""

from contextlib import AbstractContextManager
from typing import Protocol

from alphabet_audit.cases import Case
from alphabet_audit.choosing import Candidate, Choosing
from alphabet_audit.clock import Arm, Clock
from alphabet_audit.designs import Row
from alphabet_audit.outcomes import Outcome
from alphabet_audit.tolerances import Reading


class Contestant(Protocol):
    """One side of a row: something to call, and the proof that it computes what it should."""

    @property
    def arm(self) -> Arm:
        """One inference, or one complete step."""

    def check(self) -> tuple[Reading, ...]:
        """Its agreement with its own reference, at the row's shape."""


class Workbench(Protocol):
    """Where contestants come from."""

    def session(self) -> AbstractContextManager[None]:
        """In force while a ledger runs."""

    def try_gate(self, case: Case) -> Outcome:
        """A gate of SPEC section 4 on the runtime that ALPHABET's arms run by."""

    def try_candidates(self, choosing: Choosing, clock: Clock) -> list[Candidate]:
        """Every execution of a family, checked and sampled."""

    def prepare(self, row: Row, execution: str) -> Contestant:
        """The opponent of a row by the execution of that name; for a null row, ALPHABET."""
