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


def run(folder: Path, arch: str) -> None:
    """Run what is left of the selection, and write triton_tests.csv."""
    digest = tables.digest(tables.HERE / "triton_plugin.py")
    log = tables.HERE / f"triton_tests.{digest}.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "triton_plugin", "--rootdir", ".", "--confcutdir", "."]
    command += ["-q", "--tb=no", "-p", "no:cacheprovider", "--ptx-log", str(log), "--ptx-arch", arch]
    path = os.pathsep.join([str(tables.HERE), os.environ.get("PYTHONPATH", "")])
    for _ in range(RESTARTS):
        done = subprocess.run([*command, *FILES], cwd=folder, env=os.environ | {"PYTHONPATH": path}, check=False)
        if done.returncode in (0, 1, 5):  # all passed, some failed, nothing was left
            break
    tables.write(tables.HERE / "triton_tests.csv", tables.TESTS, (row | {"digest": digest} for row in read_log(log)))
    log.unlink()


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
