"""What the ledger asks of a bench: gates tried, executions tried, arms made. `device_bench` has the real one."""

from contextlib import AbstractContextManager
from typing import Protocol

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.designs import Row
from alphabet_audit.measure.clock import Call, Clock
from alphabet_audit.protocol.execution_choice import ExecutionChoice, ExecutionTrial
from alphabet_audit.protocol.outcomes import Outcome
from alphabet_audit.protocol.readings import Reading


class Arm(Protocol):
    """One side of a row: what is timed, and the proof that it computes what it should."""

    @property
    def call(self) -> Call:
        """One inference, or one complete step."""

    def check(self) -> tuple[Reading, ...]:
        """Readings of the arm's agreement with its own reference at the row's shape, before it is timed."""

    def recheck(self) -> tuple[Reading, ...]:
        """Readings of the same arm after its groups."""


class Workbench(Protocol):
    """Makes and checks whatever a ledger times."""

    def session(self) -> AbstractContextManager[None]:
        """A context that is in force while a ledger runs."""

    def try_gate(self, case: Case) -> Outcome:
        """The outcome of a parity gate on the runtime that is timed as ALPHABET."""

    def try_executions(self, choice: ExecutionChoice, clock: Clock) -> list[ExecutionTrial]:
        """A trial of each execution among which a choice is made."""

    def prepare(self, row: Row, execution: str) -> Arm:
        """The arm of a row's family by the execution of that name; of a null row, ALPHABET's."""
