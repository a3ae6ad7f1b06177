"""The choice of a family's fastest exact execution, which evidence records and the evaluator repeats."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.protocol.readings import Reading, judge, read_reading

# The one execution of ALPHABET, by its name in evidence: the kernels of the device's fused runtime.
ALPHABET_EXECUTION = "fused"


@dataclass(frozen=True)
class ExecutionChoice:
    """A choice to make: which execution of a family is the fastest in one phase, for designs of one sizing."""

    sizing: str
    family: str
    phase: str

    @property
    def key(self) -> str:
        """The choice's name in evidence."""
        return f"{self.sizing} {self.family} {self.phase}"


@dataclass(frozen=True)
class ExecutionTrial:
    """What came of trying one execution of a family at one shape.

    name: the execution's; readings: its agreement with the family's reference; seconds: samples of one call each;
    reason: why it was not timed
    """

    name: str
    readings: tuple[Reading, ...] = ()
    seconds: tuple[float, ...] = ()
    reason: str = ""

    def to_record(self) -> dict[str, Any]:
        """The fields as evidence holds them."""
        return {
            "name": self.name,
            "readings": [reading.to_record() for reading in self.readings],
            "seconds": list(self.seconds),
            "reason": self.reason,
        }


def read_trial(record: dict[str, Any]) -> ExecutionTrial:
    """The trial that a record holds."""
    readings = map(read_reading, record["readings"])
    return ExecutionTrial(record["name"], tuple(readings), tuple(record["seconds"]), record["reason"])


def choose_fastest(trials: Iterable[ExecutionTrial]) -> str | None:
    """The name of the execution with the least median time, of those that agree with their reference; None if none."""
    kept = [trial for trial in trials if trial.seconds and judge(trial.readings) == PASS]
    return min(kept, key=lambda trial: statistics.median(trial.seconds)).name if kept else None
