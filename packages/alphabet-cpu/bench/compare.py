"""One interleaved run of alphabet-cpu against the nine families: `nox -s bench-cpu`.

Every round times every arm once, next to each other; a family's figure is the median over rounds of its time divided by
ALPHABET's in the same round. Each family runs by its fastest exact algorithm, found beforehand at the same shape.
"""

import argparse
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alphabet_baselines import FAMILIES, build, match_parameters
from alphabet_core import TrainingStep, value_checks
from alphabet_cpu import CpuRuntime, CpuStream, CpuTrainer
from alphabet_cpu.lanes import LANES, load, store
from numba import njit

CHANNELS, OUTPUTS = 2, 5
# (row, batch, length, width), as the systems audit lists them.
SAME_WIDTH = ("same-width", 32, 512, 64)
MATCHED = [
    *(("matched", batch, 512, 64) for batch in (1, 8, 32, 64)),
    *(("matched", 32, length, 64) for length in (128, 2048)),
    *(("matched", 32, 512, width) for width in (16, 32, 128)),
]
# Dynamo refuses torch's recurrent layers, and unrolls Mamba's loop token by token: minutes for one compilation.
NOT_COMPILED = ("mamba", "gru", "lstm")
PHASES = ("inference", "step")
# Per token at (D, M) = (64, 16): three products with a matrix of 64 x 32, two lifts of five taps.
MULTIPLY_ADDS = 3 * 64 * 32 + 2 * 5 * 64
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


def make_arm(model: torch.nn.Module, phase: str, values: torch.Tensor, targets: torch.Tensor) -> Arm:
    """A forward pass without gradients, or a complete step, of a reference-style model."""
    if phase == "step":
        step = TrainingStep(model)
        return lambda: step(values, targets)

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return model(values)  # type: ignore[no-any-return]

    return infer


def fastest_arm(
    family: str, choice: tuple[int, ...], width: int, phase: str, data: Any, *, compiled: bool
) -> tuple[str, Arm]:
    """The family's fastest exact algorithm at this shape, eager or compiled."""

    def make(algorithm: str) -> torch.nn.Module:
        torch.manual_seed(0)
        return build(family, channels=CHANNELS, outputs=OUTPUTS, width=width, choice=choice, algorithm=algorithm)

    found: list[tuple[float, str, Arm]] = []
    for algorithm in FAMILIES[family].algorithms:
        if algorithm in ("official", "associative") or (family, algorithm) == ("mamba", "chunked"):
            continue  # CUDA only, or known to be many times slower here
        arm = make_arm(make(algorithm), phase, *data)
        found.append((min(time_once(arm) for _ in range(4)), algorithm, arm))
    if compiled and family not in NOT_COMPILED:
        best = min(found, key=lambda entry: entry[0])[1]
        torch._dynamo.reset()
        arm = make_arm(torch.compile(make(best)), phase, *data)  # type: ignore[arg-type]
        found.append((min(time_once(arm) for _ in range(5)), f"{best}, compiled", arm))
    _, name, arm = min(found, key=lambda entry: entry[0])
    return name, arm


def run_row(row: tuple[str, int, int, int], rounds: int, *, compiled: bool) -> dict[str, Any]:
    """Both phases of one row of the ledger: times and ratios per family."""
    kind, batch, length, width = row
    data = (torch.randn(batch, length, CHANNELS), torch.arange(batch) % OUTPUTS)
    result: dict[str, Any] = {"row": kind, "batch": batch, "length": length, "width": width}
    for phase in PHASES:
        torch.manual_seed(0)
        model = build("alphabet", channels=CHANNELS, outputs=OUTPUTS, width=width, choice=(width // 4,))
        runtime, trainer = CpuRuntime(model), CpuTrainer(model)  # type: ignore[arg-type]
        arms: dict[str, Arm] = {
            "alphabet": (lambda r=runtime: r(data[0])) if phase == "inference" else (lambda t=trainer: t.step(*data))
        }
        names = {"alphabet": "fused"}
        target = sum(parameter.numel() for parameter in model.parameters())
        for family, entry in FAMILIES.items():
            choice, native = entry.choices[0], width
            if kind == "matched":
                match = match_parameters(family, target, channels=CHANNELS, outputs=OUTPUTS)
                choice, native = match.choice, match.width
            say(f"{kind} {batch, length, width}, {phase}: looking for the fastest {entry.title}")
            names[family], arms[family] = fastest_arm(family, choice, native, phase, data, compiled=compiled)
        samples: dict[str, list[float]] = {name: [] for name in arms}
        for number in range(rounds + 1):
            say(f"{kind} {batch, length, width}, {phase}: round {number} of {rounds}")
            for name, arm in arms.items():
                seconds = time_once(arm)
                if number:  # the first round warms up
                    samples[name].append(seconds)
        ratios = {
            name: statistics.median(a / b for a, b in zip(samples[name], samples["alphabet"], strict=True))
            for name in FAMILIES
        }
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
        result[phase] = {
            "algorithms": names,
            "milliseconds": {name: 1e3 * statistics.median(times) for name, times in samples.items()},
            "ratios": ratios,
            "geometric_mean": mean,
            "samples": samples,
        }
        say("")
        print_phase(result, phase)
    return result


def say(what: str) -> None:
    """On one line that the next one replaces; compiling the families takes minutes."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def print_phase(result: dict[str, Any], phase: str) -> None:
    """One block of the terminal's table."""
    entry = result[phase]
    shape = f"({result['batch']}, {result['length']}, {result['width']})"
    print(f"\n{result['row']} {shape}, {phase}: ALPHABET {entry['milliseconds']['alphabet']:.2f} ms")
    for name, family in FAMILIES.items():
        print(
            f"  {family.title:12s} {entry['milliseconds'][name]:9.2f} ms  {entry['ratios'][name]:7.2f}x  "
            f"{entry['algorithms'][name]}"
        )
    slower = sum(ratio > 1.0 for ratio in entry["ratios"].values())
    print(f"  geometric mean {entry['geometric_mean']:.2f}x; faster than {slower} of {len(FAMILIES)}", flush=True)


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


def measure_lengths(lengths: list[int], tokens: int, rounds: int = 9) -> dict[int, float]:
    """Nanoseconds per token of inference on all threads by length, the same number of tokens each time.

    All lengths run next to each other in every round; the figure is the first length's median times the median ratio.
    """
    torch.manual_seed(0)
    runtime = CpuRuntime(build("alphabet", channels=CHANNELS, outputs=OUTPUTS, width=64, choice=(16,)))  # type: ignore[arg-type]
    inputs = {length: torch.randn(max(1, tokens // length), length, CHANNELS) for length in lengths}
    samples: dict[int, list[float]] = {length: [] for length in lengths}
    for _ in range(rounds):
        for length, values in inputs.items():
            samples[length].append(time_once(lambda v=values: runtime(v), 0.05) / values[..., 0].numel())
    first = samples[lengths[0]]
    return {
        length: 1e9 * statistics.median(first) * statistics.median(a / b for a, b in zip(times, first, strict=True))
        for length, times in samples.items()
    }


def measure_stream(tokens: int = 5000) -> float:
    """Microseconds per token pushed into one stream."""
    torch.manual_seed(0)
    stream = CpuStream(build("alphabet", channels=CHANNELS, outputs=OUTPUTS, width=64, choice=(16,)))  # type: ignore[arg-type]
    token = np.ones(CHANNELS, np.float32)

    def push() -> None:
        for _ in range(tokens):
            stream.push(token)

    return 1e6 * statistics.median(time_once(push) for _ in range(5)) / tokens


def print_figures(report: dict[str, Any]) -> None:
    """What does not depend on the families."""
    peak, threads = report["peak_flops_per_core"], report["threads"]
    print(f"\nmultiply-add peak of one core, measured now: {peak / 1e9:.0f} GFLOP/s")
    flops = 2 * MULTIPLY_ADDS / (report["nanoseconds_per_token"][512] * 1e-9)
    print(
        f"products and taps run at {flops / 1e9:.0f} GFLOP/s, {flops / (threads * peak):.0%} of {threads} cores' peak"
    )
    for name, title in (
        ("nanoseconds_per_token", "262,144 tokens in sequences of this length"),
        ("nanoseconds_per_token_of_one_sequence", "one sequence of this length"),
    ):
        print(f"nanoseconds per token, {threads} threads, {title}:")
        first = report[name][512]
        for length, nanoseconds in report[name].items():
            print(f"  {length:8,d} {nanoseconds:7.1f}  {nanoseconds / first:5.2f} of the first")
    print(f"a token pushed into a stream: {report['microseconds_per_pushed_token']:.1f} microseconds")


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", choices=["same-width", "matched", "all"], default="all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--eager", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", type=Path, default=Path("bench-cpu.json"))
    options = parser.parse_args()
    rows = {"same-width": [SAME_WIDTH], "matched": MATCHED, "all": [SAME_WIDTH, *MATCHED]}[options.row]
    report: dict[str, Any] = {
        "device": "cpu",
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rows": [],
    }
    print(f"cpu, {report['threads']} threads, torch {report['torch']}; times are this machine's, ratios what counts")
    with value_checks(False):
        for row in rows:
            report["rows"].append(run_row(row, options.rounds, compiled=not options.eager))
            options.json.write_text(
                json.dumps(report, indent=1) + "\n"
            )  # nothing is lost if the next row is interrupted
        report["peak_flops_per_core"] = measure_peak()
        report["nanoseconds_per_token"] = measure_lengths([512, 4096, 32768, 262144], 262144)
        report["nanoseconds_per_token_of_one_sequence"] = measure_lengths([512, 4096, 32768, 262144], 1)
        report["microseconds_per_pushed_token"] = measure_stream()
    print_figures(report)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"raw samples and all figures: {options.json}")


if __name__ == "__main__":
    main()
