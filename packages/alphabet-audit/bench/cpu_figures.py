"""What does not depend on the families: multiply-add peak, time per token by length, and a stream's tokens."""

import statistics
from functools import partial
from typing import Any

import numpy as np
import torch
from alphabet_audit.declare.designs import Designs
from alphabet_audit.measure.clock import Call, Clock
from alphabet_audit.measure.timing import calibrate_repeats
from alphabet_audit.protocol.repeats import PROTOCOL, count_repeats
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_cpu import CpuRuntime, CpuStream
from alphabet_cpu.kernels.lanes import LANES, load, store
from numba import njit

LENGTHS = (512, 4096, 32768, 262144)
LENGTH_ROUNDS, OTHER_ROUNDS = 9, 5
LIFT_TAPS = 5


class Anchor:
    """ALPHABET at the same-width design."""

    def __init__(self, designs: Designs) -> None:
        self.shape = designs.select("same-width")[0].shape
        self.config = AlphabetConfig(designs.channels, self.shape.width, self.shape.modes, designs.outputs)

    def make_model(self) -> Alphabet:
        """The model, from a fixed seed."""
        torch.manual_seed(0)
        return Alphabet(self.config)

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds per token of three products with a matrix of D x 2M and two lifts."""
        return 3 * self.shape.width * 2 * self.shape.modes + 2 * LIFT_TAPS * self.shape.width


class Sampler:
    """Takes samples of one call by the ledger's clock, each over as many repeats as fill the ledger's block."""

    def __init__(self, clock: Clock, call: Call) -> None:
        self.clock, self.call = clock, call
        target = PROTOCOL.target_seconds
        self.repeats = count_repeats(calibrate_repeats(clock, call, target), target)

    def sample(self) -> float:
        """The seconds per call of one block, behind a call that does not count and wakes up the threads."""
        self.clock.settle()
        self.call()
        return self.clock.measure(self.call, self.repeats) / self.repeats


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _run_ten_chains(out: Any, count: int) -> None:
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


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _run_five_chains(out: Any, count: int) -> None:
    factor, term = load(out, 0), load(out, LANES)
    a0, a1, a2, a3, a4 = load(out, 1), load(out, 2), load(out, 3), load(out, 4), load(out, 5)
    for _ in range(count):
        a0, a1, a2, a3, a4 = (
            a0 * factor + term, a1 * factor + term, a2 * factor + term, a3 * factor + term, a4 * factor + term,
        )  # fmt: skip
    store(out, 0, a0 + a1 + a2 + a3 + a4)


# Ten of AVX-512 keep both of its units busy; where lanes are two registers, five do, and ten would leave them.
CHAINS = {10: _run_ten_chains, 5: _run_five_chains}


def measure_peak(clock: Clock) -> float:
    """The float operations per second of one core that does nothing but multiply-adds in registers."""
    out, count = np.linspace(0.1, 0.9, 4 * LANES).astype(np.float32), 200_000
    rates = []
    for chains, run in CHAINS.items():
        sampler = Sampler(clock, partial(run, out, count))
        rates.append(2 * chains * LANES * count / min(sampler.sample() for _ in range(OTHER_ROUNDS)))
    return max(rates)


def measure_lengths(clock: Clock, anchor: Anchor, tokens: int) -> dict[str, Any]:
    """Nanoseconds per token of inference on all threads by length, in batches of so many tokens or one sequence.

    All lengths run next to each other in every round; a ratio is the median over rounds of that to the first length.
    """
    runtime = CpuRuntime(anchor.make_model())
    inputs = {length: torch.randn(max(1, tokens // length), length, anchor.config.channels) for length in LENGTHS}
    samplers = {length: Sampler(clock, partial(runtime, values)) for length, values in inputs.items()}
    samples: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(LENGTH_ROUNDS):
        for length, sampler in samplers.items():
            samples[length].append(sampler.sample() / inputs[length][..., 0].numel())
    first = samples[LENGTHS[0]]
    return {
        "nanoseconds": {length: 1e9 * statistics.median(times) for length, times in samples.items()},
        "ratios": {
            length: statistics.median(a / b for a, b in zip(times, first, strict=True))
            for length, times in samples.items()
        },
        "samples": samples,
    }


def measure_stream(clock: Clock, anchor: Anchor, tokens: int = 5000) -> float:
    """The microseconds per token that is pushed into one stream."""
    stream = CpuStream(anchor.make_model())
    token = np.ones(anchor.config.channels, np.float32)

    def push() -> None:
        for _ in range(tokens):
            stream.push(token)

    sampler = Sampler(clock, push)
    return 1e6 * statistics.median(sampler.sample() for _ in range(OTHER_ROUNDS)) / tokens


def measure_figures(clock: Clock, designs: Designs) -> dict[str, Any]:
    """All figures by name, with the samples of those by length."""
    anchor = Anchor(designs)
    return {
        "multiply_adds_per_token": anchor.multiply_adds,
        "peak_flops_per_core": measure_peak(clock),
        "tokens": measure_lengths(clock, anchor, max(LENGTHS)),
        "one_sequence": measure_lengths(clock, anchor, 1),
        "microseconds_per_pushed_token": measure_stream(clock, anchor),
    }


def print_figures(figures: dict[str, Any], threads: int) -> None:
    """Print the figures for a reader at a terminal."""
    peak, tokens = figures["peak_flops_per_core"], figures["tokens"]
    print(f"\nmultiply-add peak of one core, measured now: {peak / 1e9:.0f} GFLOP/s")
    flops = 2 * figures["multiply_adds_per_token"] / (tokens["nanoseconds"][LENGTHS[0]] * 1e-9)
    print(
        f"products and taps run at {flops / 1e9:.0f} GFLOP/s, {flops / (threads * peak):.0%} of {threads} cores' peak"
    )
    for name, title in (("tokens", f"{max(LENGTHS):,d} tokens in sequences"), ("one_sequence", "one sequence")):
        print(f"nanoseconds per token on {threads} threads, {title} of this length:")
        for length, nanoseconds in figures[name]["nanoseconds"].items():
            print(f"  {length:8,d} {nanoseconds:7.1f}  {figures[name]['ratios'][length]:5.2f} times the first")
    print(f"a token pushed into a stream takes {figures['microseconds_per_pushed_token']:.1f} microseconds")
