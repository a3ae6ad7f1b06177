"""The numbers of the measurement protocol, and how many calls fill a block."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Sample = tuple[int, float]  # (repeats, seconds of all of them together)


@dataclass(frozen=True)
class Protocol:
    """The numbers of the protocol. target_seconds: how long a block should last; warmups: calls before the groups."""

    target_seconds: float = 0.025
    warmups: int = 5
    groups: int = 7

    def to_record(self) -> dict[str, Any]:
        """The fields as the manifest holds them."""
        return asdict(self)


PROTOCOL = Protocol()  # the evaluator accepts no other
PROBES = 3
# A call that takes so many times the target is not probed again: one repeat is enough for it.
SLOW_FACTOR = 10.0


def count_repeats(samples: Sequence[Sample], target: float) -> int:
    """The number of calls that fill the target by the fastest sample: interruptions only ever slow a sample down."""
    return max(1, math.ceil(target / min(seconds / repeats for repeats, seconds in samples)))


def next_probe(samples: Sequence[Sample], target: float) -> int | None:
    """The number of calls that the next probe of a calibration takes, given those before it; None when it is over.

    First single calls are timed, then as many in a row as those suggest. A first call that is far longer than the
    target ends the calibration.
    """
    if samples and samples[0][1] > SLOW_FACTOR * target:
        return None
    if len(samples) < PROBES:
        return 1
    repeats = count_repeats(samples[:PROBES], target)
    return repeats if repeats > 1 and len(samples) < 2 * PROBES - 1 else None
