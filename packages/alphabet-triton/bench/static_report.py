"""Compile every configuration that dispatch can select, with no GPU: `nox -s gpu-static`.

Prints what each uses of a multiprocessor, writes it as JSON, and fails if any spills, uses the stack or has an opcode
that alphabet-ptx cannot execute. It then prints, or with `--estimate` prints only, estimates of the time on an RTX 4090
of every launch and design, before issue 17 and now (`time_model`).
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import triton
from alphabet_ptx import list_unknown, resources
from alphabet_triton.configurations import list_configurations
from alphabet_triton.launching import Launch
from time_model.designs import compile_launch, estimate_designs, list_designs
from time_model.nodes import count_nodes
from time_model.table import PREFACE, SHOWN, format_designs, format_launches, write

ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
EXECUTED = ("sm_80", "sm_89")  # sm_90's products are wgmma, which alphabet-ptx does not execute
SECONDS_BETWEEN_LINES = 20  # of progress, where it is no terminal that is written to
_launches: list[Launch] = []  # what processes that are forked find: launches cannot be sent to them


class Progress:
    """Says how far some work is: on a terminal in one line, elsewhere now and then in a line of its own."""

    def __init__(self) -> None:
        self._begun = self._said = time.monotonic()

    def say(self, text: str) -> None:
        """Show how far it is."""
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def count(self, what: str, done: int, of: int) -> None:
        """Show how many of how many are done, and how long the others may take."""
        left = f", some {(time.monotonic() - self._begun) * (of / done - 1):.0f} s left" if done else ""
        self.say(f"{what}: {done} of {of}{left}")

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def inspect(launch: Launch, arch: str) -> dict[str, Any]:
    """The resources of one configuration on one architecture, as a row of the report."""
    compiled = compile_launch(launch, arch)
    used = resources(compiled)
    return {
        "kernel": launch.name,
        "arch": arch,
        "flags": dict(launch.flags),
        "blocks": dict(launch.blocks.sizes),
        "warps": launch.blocks.warps,
        "registers": used.registers,
        "stack": used.stack,
        "spills": used.spill_stores + used.spill_loads,
        "shared": used.shared,
        "instructions": sum(used.instructions.values()),
        "mix": dict(used.instructions),
        "unknown": list_unknown(compiled) if arch in EXECUTED else [],
    }


def inspect_listed(which: tuple[int, str]) -> dict[str, Any]:
    """The row of the report of one of the launches that were listed before this process was forked."""
    number, arch = which
    return inspect(_launches[number], arch)


def inspect_all(launches: Iterable[Launch], architectures: tuple[str, ...], progress: Progress) -> list[dict[str, Any]]:
    """The rows of all launches on all architectures, made by one process per core.

    What was compiled before is in alphabet-ptx's cache, so that a run that was stopped goes on where it was.
    """
    torch.set_num_threads(1)
    _launches[:] = launches
    wanted = [(number, arch) for arch in architectures for number in range(len(_launches))]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("fork")) as pool:
        for row in pool.map(inspect_listed, wanted):
            rows.append(row)
            progress.count(f"compiling for {', '.join(architectures)}", len(rows), len(wanted))
    return rows


def print_estimates(path: Path | None, nodes: dict[str, tuple[int, int]] | None, commit: str, quickly: bool) -> None:
    """Print the estimates of every design, and write them if a path is given; `quickly` means one design only."""
    progress = Progress()
    nodes = nodes or count_nodes()
    rows = estimate_designs([SHOWN] if quickly else list_designs(), progress.say)
    progress.end()
    print(PREFACE)
    if path is not None:
        write(path, rows, nodes, commit)
    print(f"\nevery launch at {SHOWN}")
    print("\n".join(format_launches(rows, SHOWN)))
    print("\nall designs")
    print("\n".join(format_designs(rows, nodes)))
    shares = ", ".join(f"{phase} {own} of {count}" for phase, (count, own) in nodes.items())
    print(f"\nof the nodes of a call, torch's: {shares}")
    if find_spec("alphabet_audit"):  # and with it the families
        from time_model.families import count_families, format_families

        print(f"\nfamilies at {SHOWN}, same width, recorded: AT LEAST one node per operator, arithmetic at full rate")
        print("\n".join(format_families(count_families(SHOWN, "same-width"))))


def main() -> None:
    """Compile every configuration, print and save what it uses, and exit with 1 if any of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append", help="default: all three")
    parser.add_argument("--estimate", action="store_true", help="print estimates of time only")
    parser.add_argument("--one-design", action="store_true", help="estimate (32, 512, 64) only")
    parser.add_argument("--csv", type=Path, help="write the estimates here, too")
    parser.add_argument("--commit", default="", help="the name of the tree in that file")
    parser.add_argument("--nodes", help="graph nodes of inference and step, such as 7,205, instead of counting them")
    parser.add_argument("--json", type=Path, default=Path("gpu-static.json"))
    options = parser.parse_args()
    nodes = None
    if options.nodes:
        inference, step = (int(count) for count in options.nodes.split(","))
        nodes = {"inference": (inference, 0), "step": (step, 0)}
    bad = [] if options.estimate else compile_all(options.arch or ARCHITECTURES, options.json)
    print_estimates(options.csv, nodes, options.commit, options.one_design)
    if bad:
        raise SystemExit(1)


def compile_all(architectures: tuple[str, ...], path: Path) -> list[dict[str, Any]]:
    """Compile every configuration, print and save what it uses; returns those that fail."""
    launches, progress = list(list_configurations()), Progress()
    print(
        f"triton {triton.__version__}, torch {torch.__version__}: {len(launches)} configurations; nothing runs on a GPU"
    )
    rows = inspect_all(launches, architectures, progress)
    progress.end()
    path.write_text(json.dumps({"triton": triton.__version__, "rows": rows}, indent=1) + "\n")
    print("\nkernel               arch   configurations  registers  shared bytes  instructions  stack  spills")
    for name in sorted({row["kernel"] for row in rows}):
        for arch in architectures:
            mine = [row for row in rows if (row["kernel"], row["arch"]) == (name, arch)]
            spans = {key: f"{min(r[key] for r in mine)}-{max(r[key] for r in mine)}" for key in (
                "registers", "shared", "instructions", "stack", "spills")}  # fmt: skip
            print(f"{name:20s} {arch}  {len(mine):14d}  {spans['registers']:>9s}  {spans['shared']:>12s}  "
                  f"{spans['instructions']:>12s}  {spans['stack']:>5s}  {spans['spills']:>6s}")  # fmt: skip
    bad = [row for row in rows if row["stack"] or row["spills"] or row["unknown"]]
    for row in bad:
        print("FAIL", {name: entry for name, entry in row.items() if name != "mix"})
    clean = f"{len(rows) - len(bad)} of {len(rows)}"
    print(f"{clean} without stack and spills; on {', '.join(EXECUTED)} every opcode can be executed")
    print(f"all figures: {path}")
    return bad


if __name__ == "__main__":
    main()
