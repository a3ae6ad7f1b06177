"""Run the gallery: other people's launchers and Triton's own tests on alphabet-ptx, and write its tables and page.

    python run.py                              every case whose row is not up to date
    python run.py --only liger                 cases whose module or name contains that
    python run.py --triton-tests FOLDER        Triton's tutorials and tests too: FOLDER is python/test of a checkout

Cases run in other processes with a time limit for each; a crash is a row. Rows are kept in gallery.csv and
triton_tests.csv with a digest of the package and of the case, so that the same command resumes, and repeats only what
changed.
"""

import argparse
import importlib.metadata
import os
from pathlib import Path

import tables
import triton_tests
from batches import run_apart
from cases_tutorials import FOLDER
from modules import MODULES, find_digest
from page import write_page
from run_case import list_cases


def main() -> None:
    """Run what is out of date, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a module's or case's name")
    parser.add_argument("--arch", default="sm_89")
    parser.add_argument("--seconds", type=int, default=600, help="how long one case may take, compilation included")
    parser.add_argument("--triton-tests", type=Path, help="the folder python/test of Triton's sources")
    parser.add_argument("--tests", default="", help="part of the name of a file of tests, or `failed`")
    parser.add_argument("--page", type=Path, default=tables.HERE.parents[2] / "docs" / "ptx-gallery.md")
    options = parser.parse_args()
    if options.triton_tests:
        os.environ.setdefault(FOLDER, str(options.triton_tests.resolve().parent / "tutorials"))
    run_cases(options.only, options.arch, options.seconds)
    if options.triton_tests:
        triton_tests.run(options.triton_tests, options.arch, options.tests)
    write_page(options.page)


def run_cases(only: str, arch: str, seconds: int) -> None:
    """Run the cases whose rows are not up to date; the table is written behind each."""
    table = tables.HERE / "gallery.csv"
    before = {(row["source"], row["name"]): row for row in tables.read(table)}
    declared = {module: list(list_cases(module)) for module in MODULES}
    order = [(case.source, case.name) for cases in declared.values() for case in cases]
    rows = {key: row for key, row in before.items() if key in order}
    for module, cases in declared.items():
        digest = find_digest(module)
        known = {name for (_, name), row in rows.items() if row["digest"] == digest}
        due = {case.name: case for case in cases if only in f"{module} {case.name}" and case.name not in known}
        if module == "cases_tutorials" and FOLDER not in os.environ:
            due = {}  # which keeps the rows that are there
        for name, row in run_apart(module, arch, list(due), seconds):
            case = due[name]
            row |= {"source": case.source, "version": importlib.metadata.version(case.source), "digest": digest}
            rows[case.source, name] = row | {"name": name, "tolerance": case.tolerance}
            tables.write(table, tables.CASES, (rows[key] for key in order if key in rows))
            place = f"{order.index((case.source, name)) + 1}/{len(order)}"
            print(f"{place} {case.source}: {name}: {row['outcome']} {row['error']}", flush=True)


if __name__ == "__main__":
    main()
