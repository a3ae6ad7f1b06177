"""The benchmark's commands: what they print, and what they refuse."""

import subprocess
import sys
from pathlib import Path

import pytest
from alphabet_ptx import execute

BENCH = Path(__file__).parents[1] / "bench"


def run_bench(*arguments):
    command = [sys.executable, str(BENCH / "ptx_bench.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("against", "arms"), [([], "batches, s | one by one, s"), (["--against"], "this tree, s | the")]
)
def test_both_arms_are_timed_and_compared(against, arms):
    done = run_bench("histogram", "--rounds", "1", *against, *([str(BENCH.parents[2])] if against else []))
    assert done.returncode == 0, done.stderr
    head, _, row, _, *summary = done.stdout.splitlines()
    assert arms in head
    assert row.startswith("| histogram | 16 | 1,040 |")
    assert [line.split(" (")[0] for line in summary] == ["all", "the slowest third"]


def test_bad_arguments_are_refused(tmp_path):
    assert "no such case: sorting; there are softmax" in run_bench("sorting").stderr
    assert "must be a checkout of this repository" in run_bench("sort", "--against", str(tmp_path)).stderr


@pytest.mark.slow
def test_every_case_runs_at_once_but_those_with_asynchronous_units(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    from bench_cases import CASES

    alone = [case.name for case in CASES if execute(case.compile(), case.grid, case.arguments()).together == 1]
    assert alone == ["product in fp16 on sm_90"]
