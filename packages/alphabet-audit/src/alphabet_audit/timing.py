"""The measurement protocol: repeats that fill 25 ms, five warm-ups, seven balanced groups, every raw sample kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from alphabet_audit.clock import Call, Clock
from alphabet_audit.orders import abba_orders

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


@dataclass(frozen=True)
class Pair:
    """The two arms of a row, A for ALPHABET and B for the family: what a block calls, and how often."""

    calls: dict[str, Call]
    repeats: dict[str, int]


def count_repeats(samples: Sequence[Sample], target: float) -> int:
    """The number of calls that fill the target by the fastest sample: interruptions only ever slow a sample down."""
    return max(1, math.ceil(target / min(seconds / repeats for repeats, seconds in samples)))


def calibrate_repeats(clock: Clock, call: Call, target: float) -> list[Sample]:
    """Samples from which `count_repeats` tells how many calls fill the target; none of them counts as a measurement.

    First single calls are timed, then as many in a row as those suggest.
    """
    call()  # compiles, allocates
    clock.settle()
    samples: list[Sample] = [(1, clock.measure(call, 1))]
    if samples[0][1] > SLOW_FACTOR * target:
        return samples
    samples += [(1, clock.measure(call, 1)) for _ in range(PROBES - 1)]
    repeats = count_repeats(samples, target)
    if repeats > 1:
        samples += [(repeats, clock.measure(call, repeats)) for _ in range(PROBES - 1)]
    return samples


def warm_up(clock: Clock, pair: Pair, protocol: Protocol) -> dict[str, list[float]]:
    """The seconds of the single calls that precede the groups, by arm."""
    return {name: [clock.measure(call, 1) for _ in range(protocol.warmups)] for name, call in pair.calls.items()}


def run_groups(
    clock: Clock, pair: Pair, seed: int, protocol: Protocol, first: int = 0
) -> Iterator[tuple[int, str, list[float]]]:
    """The number, the order and the four blocks' seconds of each group from number `first` on, as it is finished."""
    for number, order in enumerate(abba_orders(protocol.groups, seed)):
        if number < first:
            continue
        seconds = []
        for name in order:
            clock.settle()
            seconds.append(clock.measure(pair.calls[name], pair.repeats[name]))
        yield number, order, seconds
