"""Ten of the gallery's cases: launchers of mamba-ssm and causal-conv1d, unmodified, beside definitions in float64."""

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[1] / "gallery"
CASES = [
    ("cases_mamba", "state update"),
    ("cases_mamba", "layer norm with residual"),
    ("cases_mamba", "RMS norm"),
    ("cases_mamba", "gated RMS norm in groups"),
    ("cases_mamba", "SwiGLU"),
    ("cases_mamba", "sums within chunks"),
    ("cases_mamba", "states from chunk to chunk"),
    ("cases_mamba", "sums between steps of a chunk"),
    ("cases_mamba", "rotation by one step"),
    ("cases_conv", "states of sequences of various lengths"),
]
NEEDED = {"cases_mamba": "mamba_ssm", "cases_conv": "causal_conv1d"}


@cache
def rows(module: str) -> dict[str, dict[str, object]]:
    """The rows of a module's quick cases, from one process: the sources are imported without their `__init__`."""
    command = [sys.executable, str(GALLERY / "run_case.py"), module, "sm_89", "quick"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    mark = "gallery row: "
    found = [json.loads(line.removeprefix(mark)) for line in done.stdout.splitlines() if line.startswith(mark)]
    assert found, done.stderr
    return {row["name"]: row for row in found}


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), CASES, ids=[name for _, name in CASES])
def test_a_launcher_from_elsewhere_is_right(module: str, name: str) -> None:
    if importlib.util.find_spec("triton") is None or importlib.util.find_spec(NEEDED[module]) is None:
        pytest.skip(f"{NEEDED[module]} is not installed; `nox -s tests` installs it where there is Triton")
    row = rows(module)[name]
    assert (row["outcome"], row["reason"], row["races"]) == ("right", "", 0)
    assert row["launches"]


@pytest.mark.slow
def test_ten_cases_are_marked_quick() -> None:
    marked = sum(path.read_text().count("quick=True)") for path in GALLERY.glob("cases_*.py"))
    assert marked == len(CASES) == 10


PRINTS_ONE_ROW = "print('gallery row: ' + '{\"outcome\": \"right\"}', flush=True); "


@pytest.mark.parametrize(
    ("program", "outcomes"),
    [
        (PRINTS_ONE_ROW + "import os; os._exit(3)", ["right", "crashed"]),
        (PRINTS_ONE_ROW + "import time; time.sleep(600)", ["right", "too long"]),
    ],
    ids=["crash", "no end"],
)
def test_a_case_that_crashes_or_does_not_end_is_a_row(
    program: str, outcomes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(GALLERY)
    from batches import run_process

    assert [row["outcome"] for row in run_process([sys.executable, "-c", program], seconds=3)] == outcomes


def test_a_wrong_result_and_a_refused_launch_are_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is for Linux")
    monkeypatch.syspath_prepend(GALLERY)
    import torch
    from case import Case, Compared
    from run_case import run

    def wrong() -> list[Compared]:
        return [Compared("sum", torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]).double())]

    def refused() -> list[Compared]:
        raise NotImplementedError("a real device is needed")

    def launches_nothing() -> list[Compared]:
        return [Compared("sum", torch.ones(2), torch.ones(2).double())]

    found = [run(Case("planted", "case", each, 1e-5), "sm_89") for each in (wrong, refused, launches_nothing)]
    assert [row["outcome"] for row in found] == ["wrong", "refused", "refused"]
    assert [row["reason"] for row in found] == [
        "sum differs by nan of 1e-05",
        "NotImplementedError: a real device is needed",
        "no kernel was launched",
    ]
    assert Compared("sum", torch.tensor([1.0, 2.2]), torch.tensor([1.0, 2.0]).double()).error == pytest.approx(0.1)
