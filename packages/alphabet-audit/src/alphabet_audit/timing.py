"""The measurement protocol: repeats that fill 25 ms, five warm-ups, seven balanced groups, every raw sample kept."""

import math
from collections.abc import Iterator
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


@dataclass(frozen=True)
class Pair:
    """The two arms of a row, A for ALPHABET and B for its opponent, and how often a block calls each."""

    arms: dict[str, Arm]
    repeats: dict[str, int]


def count_repeats(sample: Sample, target: float) -> int:
    """How many calls fill the target, going by one sample."""
    repeats, seconds = sample
    return max(1, math.ceil(target * repeats / seconds)) if seconds > 0 else max(1, 2 * repeats)


def calibrate_repeats(clock: Clock, arm: Arm, target: float) -> list[Sample]:
    """Samples of which the last one says how many repeats fill the target; none of them counts as a measurement.

    One call by itself misjudges a short arm, so its first answer is tried out; a call that fills the target is enough.
    """
    arm()  # compiles, allocates
    clock.settle()
    samples: list[Sample] = [(1, clock.measure(arm, 1))]
    repeats = count_repeats(samples[-1], target)
    if repeats > 1:
        samples.append((repeats, clock.measure(arm, repeats)))
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
