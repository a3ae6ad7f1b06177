"""The measurement protocol at work: calibration, warm-ups and balanced groups, every raw sample kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from alphabet_audit.measure.clock import Call, Clock
from alphabet_audit.protocol.orders import abba_orders
from alphabet_audit.protocol.repeats import Protocol, Sample, next_probe


@dataclass(frozen=True)
class Pair:
    """The two arms of a row, A for ALPHABET and B for the family: what a block calls, and how often."""

    calls: dict[str, Call]
    repeats: dict[str, int]


def calibrate_repeats(clock: Clock, call: Call, target: float) -> list[Sample]:
    """Samples from which `count_repeats` tells how many calls fill the target; none of them counts as a measurement."""
    call()  # compiles, allocates
    clock.settle()
    samples: list[Sample] = []
    while (repeats := next_probe(samples, target)) is not None:
        samples.append((repeats, clock.measure(call, repeats)))
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
