"""The arrows between packages are enforced: an import against one of them fails `nox -s lint`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alphabet_testing.places import ROOT

PACKAGES = {path.name: path for path in [*ROOT.glob("packages/*/src/alphabet_*"), *ROOT.glob("testing/src/alphabet_*")]}
# Where an import is planted, what is imported, and which contract has to notice.
PLANTED = {
    "the reference imports a runtime": ("alphabet_core/poles.py", "alphabet_cpu", "Imports point one way"),
    "a runtime imports another": ("alphabet_cpu/runtime.py", "alphabet_triton", "Imports point one way"),
    "a runtime imports the families": ("alphabet_triton/runtime.py", "alphabet_baselines", "Imports point one way"),
    "a family imports the audit": ("alphabet_baselines/gru.py", "alphabet_audit", "Imports point one way"),
    "the audit imports test support": ("alphabet_audit/measure/ledger.py", "alphabet_testing", "Imports point one way"),
    "the study imports the audit": ("alphabet_study/data.py", "alphabet_audit", "Imports point one way"),
    "the audit imports the study": ("alphabet_audit/measure/ledger.py", "alphabet_study", "Imports point one way"),
    "the judge imports what measures": ("alphabet_audit/judge/evaluate.py", "alphabet_audit.measure.ledger", "Judging"),
    "the report imports a gate": ("alphabet_audit/show/report.py", "alphabet_audit.gates.edges", "Judging"),
    "the evidence imports torch": ("alphabet_audit/evidence/store.py", "torch", "Judging"),
    "the declarations import the families": ("alphabet_audit/declare/designs.py", "alphabet_baselines", "Judging"),
    "the protocol imports the judge": ("alphabet_audit/protocol/plan.py", "alphabet_audit.judge", "The audit's rooms"),
    "learn imports the study": ("alphabet_learn/series.py", "alphabet_study", "Imports point one way"),
    "learn imports the families": ("alphabet_learn/series.py", "alphabet_baselines", "alphabet-learn needs the model"),
    "ptx imports the reference": ("alphabet_ptx/parse.py", "alphabet_core", "alphabet-ptx stands alone"),
    "a runtime looks behind the contract": ("alphabet_cpu/runtime.py", "alphabet_core.grid", "Fused runtimes know"),
    "a runtime looks inside the contract": ("alphabet_cpu/runtime.py", "alphabet_core.fused.graphs", "Fused runtimes"),
    "the model imports the contract": ("alphabet_core/model.py", "alphabet_core.fused", "The reference does not know"),
}  # fmt: skip


def check_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """The finished import-linter, over the packages in a folder, by the project's own contracts."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    shutil.copy(ROOT / "pyproject.toml", folder)
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "300"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def sources(tmp_path):
    for name, path in PACKAGES.items():
        shutil.copytree(path, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_workspace_keeps_every_contract(sources):
    result = check_imports(sources)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize("name", PLANTED)
def test_an_import_against_an_arrow_is_caught(name, sources):
    place, imported, contract = PLANTED[name]
    with (sources / place).open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")
    result = check_imports(sources)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), result.stdout
