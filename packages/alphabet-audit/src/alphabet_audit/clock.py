"""What measures an arm: a monotonic clock on a CPU, CUDA events on a GPU. Both do no more than these two things."""

import time
from collections.abc import Callable
from typing import Protocol

Arm = Callable[[], object]


class Clock(Protocol):
    """Measures calls."""

    @property
    def name(self) -> str:
        """What the evidence says that it is."""

    def settle(self) -> None:
        """Wait until nothing of the last block is running any more."""

    def measure(self, arm: Arm, repeats: int) -> float:
        """Seconds of so many calls in a row."""


class MonotonicClock:
    """The processor's own.

    OpenMP's threads spin for some 15 ms after the arm that used them, on cores that the next arm needs: settling is a
    pause in which they fall asleep.
    """

    name = "monotonic"
    pause = 0.03

    def settle(self) -> None:
        time.sleep(self.pause)

    def measure(self, arm: Arm, repeats: int) -> float:
        started = time.perf_counter_ns()
        for _ in range(repeats):
            arm()
        return (time.perf_counter_ns() - started) / 1e9


class CudaClock:
    """Events on the current stream: what the device was busy with, not how long Python took to ask for it."""

    name = "cuda-events"

    def settle(self) -> None:
        import torch

        torch.cuda.synchronize()

    def measure(self, arm: Arm, repeats: int) -> float:
        import torch

        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeats):
            arm()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3
