"""Triton's own tests by pytest, in a process that is started again behind each test that takes it down."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import tables

# Tests that launch kernels. Left out are those of printing, timing, caches, messages and other hardware, and what
# takes more than the time limit: the larger products in test_matmul.py.
FILES = (
    "unit/language/test_core.py",
    "unit/language/test_standard.py",
    "unit/language/test_random.py",
    "unit/language/test_conversions.py",
    "unit/language/test_tuple.py",
    "unit/language/test_annotations.py",
    "unit/language/test_libdevice.py",
    "unit/language/test_matmul.py::test_simple_persistent_matmul",
    "unit/language/test_pipeliner.py",
    "unit/language/test_tensor_descriptor.py",
    "unit/language/test_block_pointer.py",
    "unit/language/test_decorator.py",
    "unit/language/test_mxfp.py",
    "unit/cuda/test_libdevice_cuda.py",
    "unit/cuda/test_mixed_io.py",
    "unit/runtime/test_launch.py",
)
RESTARTS = 20
FOLDERS = re.compile(r"(?<=['\" ])/(?:[\w.+-]+/)+")  # where a machine keeps its files is nobody's business


FAILED = "failed"


def run(folder: Path, arch: str, only: str = "") -> None:
    """Run what is left of the selection, and write triton_tests.csv; rows of other tests stay as they are.

    `only` is a part of a file's name, or "failed" for the tests that failed last time.
    """
    digest = find_digest()
    log = tables.HERE / f"triton_tests.{digest}.jsonl"
    table = tables.HERE / "triton_tests.csv"
    before = {row["test"]: row for row in tables.read(table)}
    if not log.exists():  # the plugin leaves out what the log has
        known = [json.dumps(row) + "\n" for row in before.values() if row["digest"] == digest]
        log.write_text("".join(known), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "triton_plugin", "--rootdir", ".", "--confcutdir", "."]
    command += ["-q", "--tb=no", "-p", "no:cacheprovider", "--ptx-log", str(log), "--ptx-arch", arch]
    command += choose(only, [row["test"] for row in before.values() if row["outcome"] in (FAILED, "crashed")])
    path = os.pathsep.join([str(tables.HERE), os.environ.get("PYTHONPATH", "")])
    for _ in range(RESTARTS):
        done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, check=False)
        if done.returncode in (0, 1, 5):  # all passed, some failed, nothing was left
            break
    for row in read_log(log):
        before[row["test"]] = row | {"digest": digest}
    names = [Path(file).name for file in FILES]
    order = sorted(
        before.values(), key=lambda row: next(i for i, name in enumerate(names) if row["test"].startswith(name))
    )
    tables.write(table, tables.TESTS, order)
    log.unlink()


def find_digest() -> str:
    """What decides the rows of Triton's tests."""
    return tables.digest(tables.HERE / "triton_plugin.py")


def choose(only: str, failed: list[str]) -> list[str]:
    """The files or tests that pytest runs."""
    if only == FAILED:
        places = {Path(file.partition("::")[0]).name: file.partition("::")[0] for file in FILES}
        return [places[name.partition("::")[0]] + "::" + name.partition("::")[2] for name in failed]
    return [file for file in FILES if only in file]


def read_log(log: Path) -> list[dict[str, Any]]:
    """One row per test; a test that only started took the process down."""
    rows: dict[str, dict[str, Any]] = {}
    names = tuple(Path(file).name for file in FILES)
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["outcome"] == "interrupted" or not row["test"].startswith(names):
            continue
        if row["outcome"] == "started":
            row |= {"outcome": "crashed", "reason": "the process ended in this test"}
        reason = " ".join((row.get("fault") or row.get("reason", "")).split())[:300]
        rows[row["test"]] = row | {"reason": FOLDERS.sub("", reason)}
    return list(rows.values())
