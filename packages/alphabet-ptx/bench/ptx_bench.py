"""How long kernels take to execute, as ratios, by the processor's time: `nox -s bench-ptx`.

Without arguments every launch runs in batches of programs and one program after another, in turns, in one process: the
ratio says what the batches gain. With `--against TREE`, another checkout of this repository, the same kernels run with
this tree's alphabet_ptx and with the other's, in turns, in two processes: the ratio says what has changed since.
Results have to be equal to the byte, and so have steps and races, or there is no ratio.
"""

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
SOURCE = Path("packages", "alphabet-ptx", "src")


class Worker:
    """A process that executes cases with the alphabet_ptx of one tree, when it is asked."""

    def __init__(self, tree: Path) -> None:
        source = tree / SOURCE
        if not (source / "alphabet_ptx").is_dir():
            raise SystemExit(f"--against must be a checkout of this repository; found no {SOURCE} in {tree}")
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "ALPHABET_PTX_CACHE": "off"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer of the worker to a question: see `answer`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker of the benchmark has ended; its message is above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def work() -> None:
    """Answer questions from standard input, one a line, until it ends."""
    import alphabet_ptx
    from bench_cases import CASES

    cases = {case.name: case for case in CASES}
    compiled: dict[str, Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        case = cases[question["case"]]
        began = time.process_time()
        if question["case"] not in compiled:
            compiled[question["case"]] = case.compile()
        compiling = time.process_time() - began
        arguments = case.arguments()
        began = time.process_time()
        report = alphabet_ptx.execute(compiled[question["case"]], case.grid, arguments, **question["options"])
        seconds = time.process_time() - began
        answer = {
            "compiling": compiling,
            "seconds": seconds,
            "steps": report.steps,
            "races": [str(race) for race in report.races],
            "digest": digest(arguments),
        }
        print(json.dumps(answer), flush=True)


def digest(arguments: dict[str, Any]) -> str:
    """A hash of all arrays."""
    found = hashlib.sha256()
    for value in arguments.values():
        if hasattr(value, "tobytes"):
            found.update(value.tobytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Arm:
    """One of the two ways to execute: a worker and options of `execute`."""

    name: str
    worker: Worker
    options: dict[str, Any]

    def run(self, case: str) -> dict[str, Any]:
        """One execution of a case."""
        return self.worker.ask(case=case, options=self.options)


@dataclass(frozen=True)
class Row:
    """What was found of a case: seconds of the fast and of the slow arm."""

    case: str
    programs: int
    steps: int
    compiling: float
    first: float
    fast: float
    slow: float

    @property
    def ratio(self) -> float:
        """How many times as fast."""
        return self.slow / self.fast


def measure(case: str, programs: int, fast: Arm, slow: Arm, rounds: int) -> Row:
    """Both arms in turns, fast slow slow fast; the first execution of each is not part of the medians."""
    first, other = fast.run(case), slow.run(case)
    for what in ("digest", "steps", "races"):
        if first[what] != other[what]:
            raise SystemExit(f"{case}: {what} of {fast.name} and {slow.name} differ: {first[what]}, {other[what]}")
    samples: dict[str, list[float]] = {fast.name: [], slow.name: []}
    for arm in [fast, slow, slow, fast] * rounds:
        samples[arm.name].append(arm.run(case)["seconds"])
    medians = {name: statistics.median(each) for name, each in samples.items()}
    return Row(
        case, programs, first["steps"], first["compiling"], first["seconds"], medians[fast.name], medians[slow.name]
    )


def summarize(rows: Sequence[Row]) -> Iterator[str]:
    """The ratios of all rows and of the third that takes longest in the slow arm."""
    slowest = sorted(rows, key=lambda row: -row.slow)[: -(-len(rows) // 3)]
    for name, part in (("all", rows), ("the slowest third", slowest)):
        ratios = [row.ratio for row in part]
        total = sum(row.slow for row in part) / sum(row.fast for row in part)
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        yield (
            f"{name} ({len(part)}): geometric mean {mean:.1f}, least {min(ratios):.1f}, of the sums {total:.1f}"
            + (f" ({', '.join(row.case for row in part)})" if part is slowest else "")
        )


def main() -> None:
    """Print a table of all cases, or of those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names of cases; all if none is given")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=2, help="four executions each; 2 by default")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    from bench_cases import CASES

    unknown = set(options.cases) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in CASES)}")
    here = Worker(ROOT)
    if options.against is None:
        fast, slow = Arm("batches", here, {}), Arm("one by one", here, {"together": 1})
    else:
        fast, slow = Arm("this tree", here, {}), Arm("the other", Worker(options.against.resolve()), {})
    print(f"| case | programs | steps | compiling, s | first, s | {fast.name}, s | {slow.name}, s | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for case in CASES:
        if options.cases and case.name not in options.cases:
            continue
        row = measure(case.name, math.prod(case.grid), fast, slow, options.rounds)
        rows.append(row)
        print(
            f"| {row.case} | {row.programs} | {row.steps:,} | {row.compiling:.2f} | {row.first:.3f} "
            f"| {row.fast:.3f} | {row.slow:.3f} | {row.ratio:.1f} |",
            flush=True,
        )
    print("\n" + "\n".join(summarize(rows)))
    for worker in {fast.worker, slow.worker}:
        worker.close()


if __name__ == "__main__":
    main()
