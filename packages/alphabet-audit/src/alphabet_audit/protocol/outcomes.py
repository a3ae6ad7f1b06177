"""The outcome of trying a runtime on a case: what gates return, screens show and evidence holds."""

from dataclasses import dataclass
from typing import Any

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.verdicts import NOT_RUN
from alphabet_audit.protocol.readings import Reading, read_reading


@dataclass(frozen=True)
class Outcome:
    """A case's verdict on a runtime and the readings behind it. detail: in words, why there are no readings."""

    case: Case
    runtime: str
    verdict: str
    readings: tuple[Reading, ...] = ()
    detail: str = ""

    @property
    def worst(self) -> Reading | None:
        """The reading that is nearest to its limit or furthest above it; None if there are no readings."""
        return max(self.readings, key=lambda reading: reading.limit_share, default=None)

    def to_record(self) -> dict[str, Any]:
        """The fields as evidence holds them."""
        return {
            "case": self.case.to_record(),
            "key": self.case.key,
            "runtime": self.runtime,
            "verdict": self.verdict,
            "detail": self.detail,
            "readings": [reading.to_record() for reading in self.readings],
        }


def skip_case(name: str, case: Case, reason: str) -> Outcome:
    """The outcome of a case that this machine cannot run, which neither passes nor fails."""
    return Outcome(case, name, NOT_RUN, detail=reason)


def read_outcome(record: dict[str, Any]) -> Outcome:
    """The outcome that a record holds."""
    readings = map(read_reading, record["readings"])
    return Outcome(Case(**record["case"]), record["runtime"], record["verdict"], tuple(readings), record["detail"])
