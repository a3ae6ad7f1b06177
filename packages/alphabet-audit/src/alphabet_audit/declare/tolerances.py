"""What counts as agreement: the rules of tolerances.toml."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alphabet_audit.errors import AuditError


@dataclass(frozen=True)
class Tolerance:
    """A rule: an error may be `slack` times that of plain torch in float32, or `floor` if that is larger.

    ceiling: the largest error of plain torch itself that roundings explain; beyond it the comparison says nothing
    """

    name: str
    floor: float
    slack: float
    ceiling: float
    reason: str

    def __post_init__(self) -> None:
        for name in ("floor", "slack", "ceiling"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise AuditError(f"{name} of tolerance {self.name!r} must be finite and not negative; got {value!r}")
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise AuditError(f"tolerance {self.name!r} has no reason; write down how its limits were derived")

    def limit(self, plain: float) -> float:
        """The largest error allowed, given plain torch's own; NaN, which allows nothing, above the ceiling."""
        return max(self.floor, self.slack * plain) if plain <= self.ceiling else math.nan


Tolerances = Mapping[str, Tolerance]


def parse_tolerances(fields: Mapping[str, Any], source: str) -> dict[str, Tolerance]:
    """The rules that a file's fields declare, by name; `source` names the file in errors."""
    try:
        return {
            name: Tolerance(name, *(rule[field] for field in ("floor", "slack", "ceiling", "reason")))
            for name, rule in fields.items()
        }
    except (KeyError, TypeError) as error:
        raise AuditError(
            f"{source}: each tolerance needs floor, slack, ceiling and reason; {error!r} is missing"
        ) from error
