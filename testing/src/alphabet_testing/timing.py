"""Ratios of times, the only kind of time that a test may assert."""

import statistics
import time
from collections.abc import Callable


def interleaved_ratio(slow: Callable[[], object], fast: Callable[[], object], rounds: int = 5) -> float:
    """Median over rounds of slow time / fast time, the two measured next to each other."""
    ratios = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        slow()
        between = time.perf_counter()
        fast()
        ratios.append((between - started) / (time.perf_counter() - between))
    return statistics.median(ratios[1:])
