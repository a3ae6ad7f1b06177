"""Ratios of times, the only kind of time that a test may assert."""

import statistics
import time
from collections.abc import Callable

import torch


def interleaved_ratio(
    slow: Callable[[], object],
    fast: Callable[[], object],
    rounds: int = 5,
    *,
    clock: Callable[[], float] = time.process_time,
    summary: Callable[[list[float]], float] = statistics.median,
) -> float:
    """The median time of `slow` over the median time of `fast`, called in turn for some rounds on one torch thread.

    The clock counts the processor time of this process, so a neighbour that takes the processor away costs nothing, and
    what it does to the caches it does to both. Where the two differ in their number of threads, waiting is part of what
    is compared: pass `clock=time.perf_counter`, and `summary=min` for what holds in the rounds that nobody interrupts.
    """
    calls = (slow, fast)
    seconds: tuple[list[float], list[float]] = ([], [])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for call in calls:  # the first calls allocate and compile
            call()
        for _ in range(rounds):
            for call, spent in zip(calls, seconds, strict=True):
                started = clock()
                call()
                spent.append(clock() - started)
    finally:
        torch.set_num_threads(threads)
    return summary(seconds[0]) / summary(seconds[1])
