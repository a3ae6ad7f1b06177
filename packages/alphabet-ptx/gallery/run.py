"""Run the gallery: other people's launchers and Triton's own tests on alphabet-ptx, and write its tables and page.

    python run.py                              every case whose row is not up to date
    python run.py --only liger                 cases whose module or name contains that
    python run.py --triton-tests FOLDER        Triton's tests too: FOLDER is python/test of a checkout of its tag

Each case runs in a process of its own with a time limit; a crash is a row. Rows are kept in gallery.csv and
triton_tests.csv with a digest of the package and of the case, so that the same command resumes, and repeats only what
changed.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tables
import triton_tests
from page import write_page
from run_case import MARK, list_cases

MODULES = ("cases_liger", "cases_mamba", "cases_fla", "cases_flaggems", "cases_scan", "cases_conv")


def main() -> None:
    """Run what is out of date, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a module's or case's name")
    parser.add_argument("--arch", default="sm_89")
    parser.add_argument("--seconds", type=int, default=600, help="how long one case may take, compilation included")
    parser.add_argument("--triton-tests", type=Path, help="the folder python/test of Triton's sources")
    parser.add_argument("--page", type=Path, default=tables.HERE.parents[2] / "docs" / "ptx-gallery.md")
    options = parser.parse_args()
    table = tables.HERE / "gallery.csv"
    rows = {(row["source"], row["name"]): row for row in tables.read(table)}
    declared = [(module, case) for module in MODULES for case in list_cases(module)]
    known = {(case.source, case.name) for _, case in declared}
    rows = {key: row for key, row in rows.items() if key in known}
    for number, (module, case) in enumerate(declared, 1):
        digest = tables.digest(*(tables.HERE / name for name in ("case.py", "run_case.py", f"{module}.py")))
        before = rows.get((case.source, case.name))
        if options.only not in f"{module} {case.name}" or (before and before["digest"] == digest):
            continue
        row = run_apart(module, case.name, options.arch, options.seconds)
        version = importlib.metadata.version(case.source)
        row |= {"source": case.source, "version": version, "name": case.name, "tolerance": case.tolerance}
        rows[case.source, case.name] = row | {"digest": digest}
        tables.write(table, tables.CASES, (rows[key] for key in order(declared) if key in rows))
        print(f"{number}/{len(declared)} {case.source}: {case.name}: {row['outcome']} {row['error']}", flush=True)
    if options.triton_tests:
        triton_tests.run(options.triton_tests, options.arch)
    write_page(options.page)


def order(declared: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """The rows' keys as the cases are declared."""
    return [(case.source, case.name) for _, case in declared]


def run_apart(module: str, name: str, arch: str, seconds: int) -> dict[str, Any]:
    """The row of a case that runs in another process, also if that crashes or does not end."""
    command = [sys.executable, str(tables.HERE / "run_case.py"), module, name, arch]
    empty = {"error": "", "worst": "", "launches": 0, "steps": 0, "races": 0, "raced": "", "changed": ""}
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=os.environ, check=False)
    except subprocess.TimeoutExpired:
        return empty | {"outcome": "refused", "reason": f"not ended after {seconds} s", "seconds": seconds}
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            row: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return row
    last = " ".join(done.stderr.split())[-300:]
    reason = f"the process ended with {done.returncode}: {last}"
    return empty | {"outcome": "crashed", "reason": reason, "seconds": round(time.perf_counter() - began, 1)}


if __name__ == "__main__":
    main()
