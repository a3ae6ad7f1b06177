"""The measurement protocol: repeats that fill 25 ms, five warm-ups, seven balanced groups, every raw sample kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.clock import Arm, Clock
from alphabet_audit.orders import abba_orders

Sample = tuple[int, float]  # (repeats, seconds of all of them)


@dataclass(frozen=True)
class Protocol:
    """The numbers of the protocol; the evaluator accepts no others."""

    target_seconds: float = 0.025
    warmups: int = 5
    groups: int = 7

    def to_record(self) -> dict[str, Any]:
        """For the evidence."""
        return asdict(self)


PROTOCOL = Protocol()
PROBES, SLOW = 3, 10.0


@dataclass(frozen=True)
class Pair:
    """The two arms of a row, A for ALPHABET and B for its opponent, and how often a block calls each."""

    arms: dict[str, Arm]
    repeats: dict[str, int]


def count_repeats(samples: Sequence[Sample], target: float) -> int:
    """How many calls fill the target, going by the fastest sample: what else the machine does only slows one down."""
    return max(1, math.ceil(target / min(seconds / repeats for repeats, seconds in samples)))


def calibrate_repeats(clock: Clock, arm: Arm, target: float) -> list[Sample]:
    """Samples that say how many repeats fill the target; none of them counts as a measurement.

    Calls one by one, then as many in a row as those suggest. An arm that is many times too slow needs one.
    """
    arm()  # compiles, allocates
    clock.settle()
    samples: list[Sample] = [(1, clock.measure(arm, 1))]
    if samples[0][1] > SLOW * target:
        return samples
    samples += [(1, clock.measure(arm, 1)) for _ in range(PROBES - 1)]
    repeats = count_repeats(samples, target)
    if repeats > 1:
        samples += [(repeats, clock.measure(arm, repeats)) for _ in range(PROBES - 1)]
    return samples


def warm_up(clock: Clock, pair: Pair, protocol: Protocol) -> dict[str, list[float]]:
    """Seconds of the calls that precede the groups, arm by arm."""
    return {name: [clock.measure(arm, 1) for _ in range(protocol.warmups)] for name, arm in pair.arms.items()}


def run_groups(
    clock: Clock, pair: Pair, seed: int, protocol: Protocol, first: int = 0
) -> Iterator[tuple[int, str, list[float]]]:
    """Number, order and four blocks' seconds of every group from the first wanted one on, as each is finished."""
    for number, order in enumerate(abba_orders(protocol.groups, seed)):
        if number < first:
            continue
        seconds = []
        for name in order:
            clock.settle()
            seconds.append(clock.measure(pair.arms[name], pair.repeats[name]))
        yield number, order, seconds
