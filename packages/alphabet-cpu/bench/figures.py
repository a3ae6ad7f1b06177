"""What does not depend on the families: multiply-add peak, time per token by length, and a stream's tokens."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_cpu import CpuRuntime, CpuStream
from alphabet_cpu.lanes import LANES, load, store
from numba import njit

# Per token at (D, M) = (64, 16): three products with a matrix of 64 x 32, two lifts of five taps.
MULTIPLY_ADDS = 3 * 64 * 32 + 2 * 5 * 64
LENGTHS = (512, 4096, 32768, 262144)
PAUSE = 0.03
Arm = Callable[[], object]


def time_once(arm: Arm, least: float = 0.025) -> float:
    """Seconds per call over as many calls as fill the least time.

    OpenMP's threads spin for some 15 ms after an arm that used them, on a core that the next arm needs: the pause lets
    them fall asleep, and one call that does not count wakes up the arm's own.
    """
    time.sleep(PAUSE)
    arm()
    calls, started = 0, time.perf_counter()
    while True:
        arm()
        calls += 1
        elapsed = time.perf_counter() - started
        if elapsed >= least:
            return elapsed / calls


def make_model() -> Alphabet:
    """The anchor's, (C, D, M, K) = (2, 64, 16, 5)."""
    torch.manual_seed(0)
    return Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))


@njit(nogil=True)
def _multiply_add(out: Any, count: int) -> None:
    # Everything comes from memory, so that the compiler can neither merge the ten chains nor shorten them.
    factor, term = load(out, 0), load(out, LANES)
    a0, a1, a2, a3, a4 = load(out, 1), load(out, 2), load(out, 3), load(out, 4), load(out, 5)
    a5, a6, a7, a8, a9 = load(out, 6), load(out, 7), load(out, 8), load(out, 9), load(out, 10)
    for _ in range(count):
        a0, a1, a2, a3, a4 = (
            a0 * factor + term, a1 * factor + term, a2 * factor + term, a3 * factor + term, a4 * factor + term,
        )  # fmt: skip
        a5, a6, a7, a8, a9 = (
            a5 * factor + term, a6 * factor + term, a7 * factor + term, a8 * factor + term, a9 * factor + term,
        )  # fmt: skip
    store(out, 0, a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9)


def measure_peak(seconds: float = 0.05) -> float:
    """Float operations per second of one core that does nothing but multiply-adds in registers."""
    out, count = np.linspace(0.1, 0.9, 4 * LANES).astype(np.float32), 200_000
    _multiply_add(out, 1)
    best = min(time_once(lambda: _multiply_add(out, count), seconds) for _ in range(5))
    return 20 * LANES * count / best


def measure_lengths(tokens: int, rounds: int = 9) -> dict[str, Any]:
    """Nanoseconds per token of inference on all threads by length, in batches of so many tokens or one sequence.

    All lengths run next to each other in every round; a ratio is the median over rounds of that to the first length.
    """
    runtime = CpuRuntime(make_model())
    inputs = {length: torch.randn(max(1, tokens // length), length, 2) for length in LENGTHS}
    samples: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(rounds):
        for length, values in inputs.items():
            samples[length].append(time_once(lambda v=values: runtime(v), 0.05) / values[..., 0].numel())
    first = samples[LENGTHS[0]]
    return {
        "nanoseconds": {length: 1e9 * statistics.median(times) for length, times in samples.items()},
        "ratios": {
            length: statistics.median(a / b for a, b in zip(times, first, strict=True))
            for length, times in samples.items()
        },
        "samples": samples,
    }


def measure_stream(tokens: int = 5000) -> float:
    """Microseconds per token pushed into one stream."""
    stream = CpuStream(make_model())
    token = np.ones(2, np.float32)

    def push() -> None:
        for _ in range(tokens):
            stream.push(token)

    return 1e6 * statistics.median(time_once(push) for _ in range(5)) / tokens


def measure_figures() -> dict[str, Any]:
    """All of them, with the samples behind each."""
    return {
        "peak_flops_per_core": measure_peak(),
        "tokens": measure_lengths(max(LENGTHS)),
        "one_sequence": measure_lengths(1),
        "microseconds_per_pushed_token": measure_stream(),
    }


def print_figures(figures: dict[str, Any], threads: int) -> None:
    """For a reader at a terminal."""
    peak, tokens = figures["peak_flops_per_core"], figures["tokens"]
    print(f"\nmultiply-add peak of one core, measured now: {peak / 1e9:.0f} GFLOP/s")
    flops = 2 * MULTIPLY_ADDS / (tokens["nanoseconds"][LENGTHS[0]] * 1e-9)
    print(
        f"products and taps run at {flops / 1e9:.0f} GFLOP/s, {flops / (threads * peak):.0%} of {threads} cores' peak"
    )
    for name, title in (("tokens", f"{max(LENGTHS):,d} tokens in sequences"), ("one_sequence", "one sequence")):
        print(f"nanoseconds per token on {threads} threads, {title} of this length:")
        for length, nanoseconds in figures[name]["nanoseconds"].items():
            print(f"  {length:8,d} {nanoseconds:7.1f}  {figures[name]['ratios'][length]:5.2f} times the first")
    print(f"a token pushed into a stream: {figures['microseconds_per_pushed_token']:.1f} microseconds")
