"""What counts as agreement: rules from audit/tolerances.toml, each with its reason."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.errors import AuditError

PASS, FAIL, NOT_RUN = "pass", "fail", "not-run"


@dataclass(frozen=True)
class Tolerance:
    """At most `slack` times as wrong as plain torch in float32, or as `floor` allows, both against float64."""

    name: str
    floor: float
    slack: float
    reason: str

    def __post_init__(self) -> None:
        for name in ("floor", "slack"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise AuditError(f"{name} of tolerance {self.name!r} must be finite and not negative; got {value!r}")
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise AuditError(f"tolerance {self.name!r} has no reason; a limit is derived and says from what")

    def limit(self, plain: float) -> float:
        """The largest error allowed, given plain torch's own. An error that is no number allows nothing."""
        return max(self.floor, self.slack * plain) if math.isfinite(plain) else math.nan


Tolerances = Mapping[str, Tolerance]


def parse_tolerances(fields: Mapping[str, Any], source: str) -> dict[str, Tolerance]:
    """The rules in a file's fields; `source` is its name, for errors."""
    try:
        return {name: Tolerance(name, rule["floor"], rule["slack"], rule["reason"]) for name, rule in fields.items()}
    except (KeyError, TypeError) as error:
        raise AuditError(f"{source}: each tolerance has floor, slack and reason; {error!r} is missing") from error


@dataclass(frozen=True)
class Reading:
    """One comparison. quantity: what was compared; rule: by which tolerance; plain: plain torch's error."""

    quantity: str
    rule: str
    error: float
    plain: float
    limit: float

    @property
    def holds(self) -> bool:
        """An error or a limit that is no number never holds."""
        return math.isfinite(self.error) and self.error <= self.limit

    @property
    def strain(self) -> float:
        """Error by limit: which of several readings is the worst."""
        if not math.isfinite(self.error) or not math.isfinite(self.limit):
            return math.inf
        return self.error / self.limit if self.limit > 0 else (0.0 if self.error == 0 else math.inf)

    def to_record(self) -> dict[str, Any]:
        """For the evidence, in which what is no finite number is written as a word."""
        return {name: _write(value) for name, value in asdict(self).items()}


def read_reading(record: Mapping[str, Any]) -> Reading:
    """A reading from its record, in which numbers that are none are words."""
    numbers = (float(record[name]) for name in ("error", "plain", "limit"))
    return Reading(record["quantity"], record["rule"], *numbers)


def judge(readings: Iterable[Reading]) -> str:
    """Pass if there is anything to judge and all of it holds."""
    readings = list(readings)
    return PASS if readings and all(reading.holds for reading in readings) else FAIL


def _write(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
