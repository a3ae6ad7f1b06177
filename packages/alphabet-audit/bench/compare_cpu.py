"""`nox -s bench-cpu`: alphabet-cpu against the nine families on this machine, in one sitting and without evidence.

The designs, the bench, the clock and the order of blocks are the ledger's own; each family runs by its fastest exact
execution at the very shape that is timed. All of it is exploratory: the numbers to quote are the ledger's.
"""

import argparse
import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from alphabet_audit import AuditError, geometric_mean, read_declarations
from alphabet_audit.declare.designs import ALL, MATCHED, PHASES, SAME_WIDTH, Design, Row
from alphabet_audit.declare.vectors import describe_restriction
from alphabet_audit.gates.runtimes import cpu_runtime
from alphabet_audit.measure.clock import MonotonicClock
from alphabet_audit.measure.device_bench import DeviceBench
from alphabet_audit.measure.exploring import EXPLORED, ExploredRow, explore_row, prepare_alphabet
from alphabet_audit.measure.vectors import describe_vectors, require_vectors, restrict_vectors
from alphabet_audit.protocol.repeats import Protocol
from cpu_figures import measure_figures, print_figures

GOALS = {"inference": 5.0, "step": 3.9}
LARGEST_SLOWDOWN = 1.15  # of a token in long sequences
SCOPES = {"matched": MATCHED}  # a short name for the command line


def run_phase(
    bench: DeviceBench, clock: MonotonicClock, design: Design, phase: str, protocol: Protocol
) -> dict[str, Any]:
    """One design in one phase: every family's row, printed as a table when all are timed."""
    alphabet = prepare_alphabet(bench, design, phase)
    rows: dict[str, ExploredRow] = {}
    for family, title in bench.designs.families.items():
        show_progress(f"{design.key}, {phase}: {title}")
        rows[family] = explore_row(bench, clock, alphabet, Row(design, family, phase), protocol)
    show_progress("")
    mean = print_phase(design, phase, rows, dict(bench.designs.families))
    return {"geometric_mean": mean, "rows": {family: row.to_record() for family, row in rows.items()}}


def print_phase(design: Design, phase: str, rows: dict[str, ExploredRow], titles: dict[str, str]) -> float:
    """Print the table of one design in one phase; returns the geometric mean of its ratios."""
    found = {family: row.summary for family, row in rows.items()}
    mine = sorted(each["seconds"]["A"] for each in found.values())[len(found) // 2]
    print(f"\n{design.key}, {phase}: ALPHABET {1e3 * mine:.2f} ms")
    for family, each in found.items():
        print(
            f"  {titles[family]:12s} {1e3 * each['seconds']['B']:9.2f} ms  {each['ratio']:7.2f}x  "
            f"{rows[family].execution}"
        )
        for name, reason in rows[family].left_out.items():
            print(f"  {'':12s} not tried: {name}: {reason}")
    ratios = [each["ratio"] for each in found.values()]
    mean = geometric_mean(ratios)
    faster = sum(ratio > 1.0 for ratio in ratios)
    print(f"  geometric mean {mean:.2f}x; faster than {faster} of {len(ratios)} (exploratory)", flush=True)
    return mean


def judge(report: dict[str, Any]) -> dict[str, bool]:
    """The verdicts: the paper's goals at the same width, and time that grows linearly with the length."""
    verdicts = {}
    for design, phases in report["designs"].items():
        for phase, found in phases.items() if design.startswith(SAME_WIDTH) else ():
            ratios = [row["ratio"] for row in found["rows"].values()]
            verdicts[f"{phase}: geometric mean at least {GOALS[phase]}"] = found["geometric_mean"] >= GOALS[phase]
            verdicts[f"{phase}: faster than every family"] = min(ratios) > 1.0
    flat = report["figures"]["tokens"]["ratios"].values()
    verdicts["time per token flat within 15 %"] = max(flat) / min(flat) <= LARGEST_SLOWDOWN
    return verdicts


def show_progress(what: str) -> None:
    """Show what is going on, on one line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--row", default=ALL, help="all, same-width, matched, or one design such as 'same-width 32/512/64'"
    )
    parser.add_argument("--rounds", type=int, default=EXPLORED.groups, help="groups of four blocks for each row")
    parser.add_argument("--eager", action="store_true", help="leave torch.compile out, which takes minutes")
    parser.add_argument("--vectors", help="avx2: every part keeps to AVX2, as in the ledger")
    parser.add_argument("--json", type=Path, default=Path("bench-cpu.json"), help="where raw samples are written")
    return parser.parse_args()


def confirm_vectors(options: argparse.Namespace) -> dict[str, Any]:
    """The vector instructions in force, after a start again under the restriction that the options ask for."""
    try:
        if options.vectors is not None:
            restrict_vectors(options.vectors)
        vectors = describe_vectors(options.vectors, compiled=not options.eager)
        require_vectors(vectors)
    except AuditError as error:
        raise SystemExit(f"bench-cpu: {error}") from error
    return vectors


def main() -> None:
    """Compare, print, save; the exit code is 1 if a verdict is FAIL."""
    options = parse_options()
    declarations = read_declarations()
    vectors = confirm_vectors(options)
    try:
        designs = declarations.designs.select(SCOPES.get(options.row, options.row))
    except AuditError as error:
        raise SystemExit(f"bench-cpu: {error}") from error
    bench = DeviceBench(declarations, cpu_runtime(), compiled=not options.eager)
    clock, protocol = MonotonicClock(), replace(EXPLORED, groups=options.rounds)
    report: dict[str, Any] = {
        "exploratory": True,
        "device": "cpu",
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "vectors": vectors,
        "designs": {},
    }
    print("EXPLORATORY: one sitting on this machine, without evidence; the ledger's numbers are the ones to quote.")
    device = f"cpu{describe_restriction(vectors)}, {report['threads']} threads, torch {report['torch']}"
    print(f"{device}; times depend on the machine, ratios matter")
    with bench.session():
        for design in sorted(designs, key=lambda each: each.sizing != SAME_WIDTH):
            phases = report["designs"].setdefault(design.key, {})
            for phase in PHASES:
                phases[phase] = run_phase(bench, clock, design, phase, protocol)
                # Nothing is lost if what follows is interrupted.
                options.json.write_text(json.dumps(report, indent=1) + "\n")
        show_progress("peak, lengths and stream")
        report["figures"] = measure_figures(clock, declarations.designs)
    show_progress("")
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
