"""Quick comparisons on this machine, without evidence, by the ledger's own bench, clock, orders and designs.

Its numbers are exploratory. Unlike the ledger it chooses each family's execution at the very shape that is timed, and
it may time fewer groups; the numbers to publish are the ledger's, whose evidence others can check.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from alphabet_audit.declare.designs import ALPHABET, Design, Row
from alphabet_audit.declare.executions import EAGER
from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.measure.arms import AlphabetArm, FamilyArm
from alphabet_audit.measure.clock import Clock
from alphabet_audit.measure.device_bench import DeviceBench
from alphabet_audit.measure.executions import Execution, list_executions, run_eagerly
from alphabet_audit.measure.timing import Pair, calibrate_repeats, run_groups, warm_up
from alphabet_audit.protocol.orders import seed_of
from alphabet_audit.protocol.ratios import summarize
from alphabet_audit.protocol.readings import judge
from alphabet_audit.protocol.repeats import PROTOCOL, Protocol, count_repeats

EXPLORED = Protocol(PROTOCOL.target_seconds, PROTOCOL.warmups, groups=5)
# Samples of an execution, of which the fastest counts.
SAMPLES = 3
# Algorithms are first called on an eighth of the batch; one that takes so many times the fastest one's time there is
# not tried on the whole batch, where it would take seconds.
SCREENED_BATCHES, FAR_SLOWER = 8, 3.0


@dataclass(frozen=True)
class ExploredRow:
    """A row that was timed: the execution of its family, and the groups' orders, repeats and seconds.

    left_out: why each of the family's other executions was not a choice, if it was not
    """

    row: Row
    execution: str
    groups: list[Record]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> Record:
        """The ratio, its interval and both arms' seconds, as a row of the ledger has them."""
        return summarize(self.groups)

    def to_record(self) -> dict[str, Any]:
        """Everything as plain values, raw samples included."""
        return {"execution": self.execution, "left_out": self.left_out, **self.summary, "groups": self.groups}


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
    executions = list_executions(row.family, bench.runtime.device, compiled=bench.compiled)
    execution, arm, left_out = choose_arm(bench, clock, row, executions)
    calls = {"A": alphabet.call, "B": arm.call}
    target = protocol.target_seconds
    repeats = {name: count_repeats(calibrate_repeats(clock, call, target), target) for name, call in calls.items()}
    pair = Pair(calls, repeats)
    warm_up(clock, pair, protocol)
    groups = [
        {"number": number, "order": order, "repeats": repeats, "seconds": seconds}
        for number, order, seconds in run_groups(clock, pair, seed_of(row.key), protocol)
    ]
    return ExploredRow(row, execution, groups, left_out)


def choose_arm(
    bench: DeviceBench, clock: Clock, row: Row, executions: Sequence[Execution]
) -> tuple[str, FamilyArm, dict[str, str]]:
    """The name and the arm of the fastest execution, and why others were left out.

    An execution that runs but disagrees with its reference is an error: timing the next one would hide it.
    """
    left_out = screen_algorithms(bench, clock, row, list(dict.fromkeys(each.algorithm for each in executions)))
    fastest: dict[Execution, float] = {}
    for execution in executions:
        if execution.algorithm in left_out:
            continue
        try:
            call = bench.family_arm(row, execution).call
            first = clock.measure(call, 1)
            if execution.mode == EAGER and first > FAR_SLOWER * min(fastest.values(), default=math.inf):
                fastest[execution] = first  # no more samples; a first compiled call says nothing, it compiles
                continue
            clock.settle()
            fastest[execution] = min(clock.measure(call, 1) for _ in range(SAMPLES))
        except Exception as error:
            left_out[execution.name] = describe_error(error)
    if not fastest:
        raise AuditError(f"no execution of {row.family} runs here at {row.key}: {left_out}")
    chosen = min(fastest, key=lambda each: fastest[each])
    arm = bench.family_arm(row, chosen)  # a new one, since a step that was sampled has moved its model
    if judge(arm.check()) != PASS:
        raise AuditError(f"{row.family}, {chosen.name}, disagrees with its reference at {row.key}")
    return chosen.name, arm, left_out


def screen_algorithms(bench: DeviceBench, clock: Clock, row: Row, algorithms: Sequence[str]) -> dict[str, str]:
    """Why algorithms are not tried on the whole batch: they fail on a part of it, or are far slower than another."""
    shape = replace(row.design.shape, batch=math.ceil(row.design.shape.batch / SCREENED_BATCHES))
    part = Row(Design(row.design.sizing, shape), row.family, row.phase)
    seconds: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for algorithm in algorithms:
        try:
            call = bench.family_arm(part, Execution(algorithm, EAGER, run_eagerly)).call
            seconds[algorithm] = min(clock.measure(call, 1) for _ in range(2))
        except Exception as error:
            left_out[algorithm] = describe_error(error)
    for algorithm, found in seconds.items():
        times = found / min(seconds.values())
        if times > FAR_SLOWER:
            left_out[algorithm] = f"{times:.1f} times as slow as another at {shape}"
    return left_out


def describe_error(error: Exception) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
