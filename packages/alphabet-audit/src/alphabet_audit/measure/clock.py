"""The two clocks that measure calls: a monotonic clock for the CPU, CUDA events for a GPU."""

import time
from collections.abc import Callable
from typing import Protocol

Call = Callable[[], object]


class Clock(Protocol):
    """Measures how long calls take."""

    @property
    def name(self) -> str:
        """The clock's name in evidence."""

    def settle(self) -> None:
        """Wait until nothing of the last block is running any more."""

    def measure(self, call: Call, repeats: int) -> float:
        """The seconds that so many calls in a row take together."""


class MonotonicClock:
    """The processor's monotonic clock.

    OpenMP's threads spin for some 15 ms after the call that used them, on cores that the next arm needs: settling is a
    pause in which they fall asleep.
    """

    name = "monotonic"
    pause = 0.03

    def settle(self) -> None:
        time.sleep(self.pause)

    def measure(self, call: Call, repeats: int) -> float:
        started = time.perf_counter_ns()
        for _ in range(repeats):
            call()
        return (time.perf_counter_ns() - started) / 1e9


class CudaClock:
    """Events on the current CUDA stream: how long the device was busy, not how long Python took to ask."""

    name = "cuda-events"

    def settle(self) -> None:
        import torch

        torch.cuda.synchronize()

    def measure(self, call: Call, repeats: int) -> float:
        import torch

        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeats):
            call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3
