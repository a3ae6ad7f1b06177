"""Readings: what a comparison found, its limit, and the verdict on several of them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.declare.verdicts import FAIL, PASS


@dataclass(frozen=True)
class Reading:
    """One comparison's result. quantity: what was compared; rule: the tolerance's name; plain: plain torch's error."""

    quantity: str
    rule: str
    error: float
    plain: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the error is within its limit; an error or a limit that is not finite never is."""
        return math.isfinite(self.error) and self.error <= self.limit

    @property
    def limit_share(self) -> float:
        """The error as a share of its limit, by which the worst of several readings is found."""
        if not math.isfinite(self.error) or not math.isfinite(self.limit):
            return math.inf
        return self.error / self.limit if self.limit > 0 else (0.0 if self.error == 0 else math.inf)

    def to_record(self) -> dict[str, Any]:
        """The fields as evidence holds them; numbers that are not finite are words there, such as "nan"."""
        return {name: _write(value) for name, value in asdict(self).items()}


def read_reading(record: Mapping[str, Any]) -> Reading:
    """The reading that a record holds."""
    numbers = (float(record[name]) for name in ("error", "plain", "limit"))
    return Reading(record["quantity"], record["rule"], *numbers)


def judge(readings: Iterable[Reading]) -> str:
    """The verdict on readings: pass if there are any and all of them hold, else fail."""
    readings = list(readings)
    return PASS if readings and all(reading.holds for reading in readings) else FAIL


def _write(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
