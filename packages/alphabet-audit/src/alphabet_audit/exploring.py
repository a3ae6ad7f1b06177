"""Quick comparisons on this machine, without evidence, by the ledger's own bench, clock, orders and designs.

Its numbers are exploratory. Unlike the ledger it chooses each family's execution at the very shape that is timed, and
it may time fewer groups; the numbers to publish are the ledger's, whose evidence others can check.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alphabet_audit.arms import AlphabetArm, FamilyArm
from alphabet_audit.clock import Clock
from alphabet_audit.designs import ALPHABET, Design, Row
from alphabet_audit.device_bench import DeviceBench
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence import Record
from alphabet_audit.executions import COMPILED, Execution, list_executions
from alphabet_audit.orders import seed_of
from alphabet_audit.ratios import summarize
from alphabet_audit.timing import PROTOCOL, Pair, Protocol, calibrate_repeats, count_repeats, run_groups, warm_up
from alphabet_audit.tolerances import judge
from alphabet_audit.verdicts import PASS

EXPLORED = Protocol(PROTOCOL.target_seconds, PROTOCOL.warmups, groups=5)
# Samples of an execution, of which the fastest counts; one whose first call takes so much longer has no others.
SAMPLES, FAR_SLOWER = 4, 5.0


@dataclass(frozen=True)
class ExploredRow:
    """A row that was timed: the execution of its family, and the groups' orders, repeats and seconds."""

    row: Row
    execution: str
    groups: list[Record]

    @property
    def summary(self) -> Record:
        """The ratio, its interval and both arms' seconds, as a row of the ledger has them."""
        return summarize(self.groups)

    def to_record(self) -> dict[str, Any]:
        """Everything as plain values, raw samples included."""
        return {"execution": self.execution, **self.summary, "groups": self.groups}


def prepare_alphabet(bench: DeviceBench, design: Design, phase: str) -> AlphabetArm:
    """ALPHABET's arm in a phase of a design; an error if it disagrees with the reference."""
    arm = bench.alphabet_arm(Row(design, ALPHABET, phase))
    if judge(arm.check()) != PASS:
        raise AuditError(f"ALPHABET disagrees with its reference at {design.key}, {phase}: run alphabet-audit parity")
    return arm


def explore_row(
    bench: DeviceBench, clock: Clock, alphabet: AlphabetArm, row: Row, protocol: Protocol = EXPLORED
) -> ExploredRow:
    """Time a row's family, by its fastest exact execution at this shape, against ALPHABET's arm."""
    execution, arm = choose_arm(
        bench, clock, row, list_executions(row.family, bench.runtime.device, compiled=bench.compiled)
    )
    calls = {"A": alphabet.call, "B": arm.call}
    target = protocol.target_seconds
    repeats = {name: count_repeats(calibrate_repeats(clock, call, target), target) for name, call in calls.items()}
    pair = Pair(calls, repeats)
    warm_up(clock, pair, protocol)
    groups = [
        {"number": number, "order": order, "repeats": repeats, "seconds": seconds}
        for number, order, seconds in run_groups(clock, pair, seed_of(row.key), protocol)
    ]
    return ExploredRow(row, execution, groups)


def choose_arm(bench: DeviceBench, clock: Clock, row: Row, executions: Sequence[Execution]) -> tuple[str, FamilyArm]:
    """The name and the arm of the fastest execution that runs on this device and agrees with its reference."""
    fastest: dict[str, float] = {}
    for execution in executions:
        limit = FAR_SLOWER * min(fastest.values(), default=float("inf"))
        try:
            call = bench.family_arm(row, execution).call
            seconds = clock.measure(call, 1)
            if execution.mode == COMPILED or seconds <= limit:  # a first compiled call compiles
                clock.settle()
                seconds = min(clock.measure(call, 1) for _ in range(SAMPLES))
        except Exception:  # an execution that this device cannot run
            continue
        fastest[execution.name] = seconds
    known = {execution.name: execution for execution in executions}
    for name in sorted(fastest, key=lambda name: fastest[name]):
        arm = bench.family_arm(row, known[name])  # a new one, since a step that was sampled has moved its model
        if judge(arm.check()) == PASS:
            return name, arm
    raise AuditError(f"no execution of {row.family} runs here and agrees with its reference at {row.key}")
