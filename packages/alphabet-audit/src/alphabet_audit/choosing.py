"""A family's executions and the choice between them, which evidence records and the evaluator repeats."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from alphabet_audit.tolerances import PASS, Reading, judge

FUSED = "fused"  # the one execution of ALPHABET


@dataclass(frozen=True)
class Choosing:
    """A family's executions, to be compared at the calibration shape in one phase under one control of capacity."""

    control: str
    family: str
    phase: str

    @property
    def key(self) -> str:
        """Its name in the evidence."""
        return f"{self.control} {self.family} {self.phase}"


@dataclass(frozen=True)
class Candidate:
    """One way to execute a family, tried at the calibration shape.

    readings: its agreement with the family's reference; seconds: samples per call; reason: why it could not be tried
    """

    name: str
    readings: tuple[Reading, ...] = ()
    seconds: tuple[float, ...] = ()
    reason: str = ""

    def to_record(self) -> dict[str, Any]:
        """For the evidence."""
        return {
            "name": self.name,
            "readings": [reading.to_record() for reading in self.readings],
            "seconds": list(self.seconds),
            "reason": self.reason,
        }


def choose_fastest(candidates: Iterable[Candidate]) -> str | None:
    """The name of the candidate with the least median, of those that agree with their reference; None if none does."""
    kept = [candidate for candidate in candidates if candidate.seconds and judge(candidate.readings) == PASS]
    return min(kept, key=lambda each: statistics.median(each.seconds)).name if kept else None
