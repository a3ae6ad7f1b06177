"""What became of a case: the one form in which gates report, on the screen and in the evidence."""

from dataclasses import dataclass
from typing import Any

from alphabet_audit.cases import Case
from alphabet_audit.tolerances import NOT_RUN, Reading, read_reading


@dataclass(frozen=True)
class Outcome:
    """What became of a case: a verdict, the readings behind it, and in words why there are none."""

    case: Case
    runtime: str
    verdict: str
    readings: tuple[Reading, ...] = ()
    detail: str = ""

    @property
    def worst(self) -> Reading | None:
        """The reading that is nearest to its limit, or furthest above."""
        return max(self.readings, key=lambda reading: reading.strain, default=None)

    def to_record(self) -> dict[str, Any]:
        """For the evidence."""
        return {
            "case": self.case.to_record(),
            "key": self.case.key,
            "runtime": self.runtime,
            "verdict": self.verdict,
            "detail": self.detail,
            "readings": [reading.to_record() for reading in self.readings],
        }


def skip_case(name: str, case: Case, reason: str) -> Outcome:
    """A case that nothing here can run: neither pass nor fail."""
    return Outcome(case, name, NOT_RUN, detail=reason)


def read_outcome(record: dict[str, Any]) -> Outcome:
    """An outcome from its record."""
    readings = map(read_reading, record["readings"])
    return Outcome(Case(**record["case"]), record["runtime"], record["verdict"], tuple(readings), record["detail"])
