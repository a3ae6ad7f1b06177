"""One interleaved run of alphabet-cpu against the nine families: `nox -s bench-cpu`.

Every round times every arm once, next to each other; a family's figure is the median over rounds of its time divided by
ALPHABET's in the same round. Each family runs by its fastest exact algorithm, found beforehand at the same shape.
"""

import argparse
import copy
import json
import math
import platform
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from alphabet_baselines import FAMILIES, build, match_parameters
from alphabet_core import TrainingStep, value_checks
from alphabet_cpu import CpuRuntime, CpuTrainer
from figures import Arm, measure_figures, print_figures, time_once

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
GOALS = {"inference": 5.0, "step": 3.9}


def make_arm(model: torch.nn.Module, phase: str, values: torch.Tensor, targets: torch.Tensor) -> Arm:
    """A forward pass without gradients, or a complete step, of a reference-style model."""
    if phase == "step":
        step = TrainingStep(model)
        return lambda: step(values, targets)

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return model(values)  # type: ignore[no-any-return]

    return infer


def require_parity(name: str, found: object, wanted: object, limit: float = 1e-4) -> None:
    """Nothing is timed whose first result, logits or loss, is not the reference's."""
    assert isinstance(found, torch.Tensor)
    assert isinstance(wanted, torch.Tensor)
    error = float((found - wanted).abs().max())
    if not error <= limit * max(1.0, float(wanted.abs().max())):
        raise SystemExit(f"{name} is {error:.1e} from its reference; not timed")


def fastest_arm(
    family: str, choice: tuple[int, ...], width: int, phase: str, data: Any, *, compiled: bool
) -> tuple[str, Arm]:
    """The family's fastest exact algorithm at this shape, eager or compiled."""

    def make(algorithm: str) -> torch.nn.Module:
        torch.manual_seed(0)
        return build(family, channels=CHANNELS, outputs=OUTPUTS, width=width, choice=choice, algorithm=algorithm)

    found: list[tuple[float, str, Arm]] = []
    wanted = make_arm(make(FAMILIES[family].algorithms[0]), phase, *data)()
    for algorithm in FAMILIES[family].algorithms:
        if algorithm in ("official", "associative") or (family, algorithm) == ("mamba", "chunked"):
            continue  # CUDA only, or known to be many times slower here
        arm = make_arm(make(algorithm), phase, *data)
        require_parity(f"{family}, {algorithm}", arm(), wanted)
        found.append((min(time_once(arm) for _ in range(4)), algorithm, arm))
    if compiled and family not in NOT_COMPILED:
        best = min(found, key=lambda entry: entry[0])[1]
        torch._dynamo.reset()
        arm = make_arm(torch.compile(make(best)), phase, *data)  # type: ignore[arg-type]
        require_parity(f"{family}, {best}, compiled", arm(), wanted)
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
        wanted = make_arm(copy.deepcopy(model), phase, *data)()
        runtime, trainer = CpuRuntime(model), CpuTrainer(model)  # type: ignore[arg-type]
        arms: dict[str, Arm] = {
            "alphabet": (lambda r=runtime: r(data[0])) if phase == "inference" else (lambda t=trainer: t.step(*data))
        }
        require_parity("alphabet", arms["alphabet"](), wanted, 1e-6)
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
        order, generator = list(arms), random.Random(0)
        for number in range(rounds + 1):
            generator.shuffle(order)  # no arm always runs behind the same neighbour
            say(f"{kind} {batch, length, width}, {phase}: round {number} of {rounds}")
            for name in order:
                samples[name].append(time_once(arms[name]))
        counted = {name: times[1:] for name, times in samples.items()}  # the first round warms up
        ratios = {
            name: statistics.median(a / b for a, b in zip(counted[name], counted["alphabet"], strict=True))
            for name in FAMILIES
        }
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
        result[phase] = {
            "algorithms": names,
            "milliseconds": {name: 1e3 * statistics.median(times) for name, times in counted.items()},
            "ratios": ratios,
            "geometric_mean": mean,
            "samples": samples,
        }
        say("")
        print_phase(result, phase)
    return result


def judge(report: dict[str, Any]) -> dict[str, bool]:
    """What issue and paper ask of the same-width row and of the length; the rest is reported."""
    verdicts = {}
    for row in report["rows"]:
        for phase in PHASES if row["row"] == "same-width" else ():
            verdicts[f"{phase}: geometric mean at least {GOALS[phase]}"] = row[phase]["geometric_mean"] >= GOALS[phase]
            verdicts[f"{phase}: faster than every family"] = min(row[phase]["ratios"].values()) > 1.0
    flat = report["figures"]["tokens"]["ratios"].values()
    verdicts["time per token flat within 15 %"] = max(flat) / min(flat) <= 1.15
    return verdicts


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
        say("peak, lengths and stream")
        report["figures"] = measure_figures()
    say("")
    print_figures(report["figures"], report["threads"])
    report["verdicts"] = judge(report)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    for what, passed in report["verdicts"].items():
        print(f"{'pass' if passed else 'FAIL'}  {what}")
    print(f"raw samples and all figures: {options.json}")
    if not all(report["verdicts"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
