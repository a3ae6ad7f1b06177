"""Judging and showing a run needs neither torch nor numba nor anything that measures; the schema is published."""

import json
import subprocess
import sys

import pytest
from alphabet_audit.cli import MEASURING
from alphabet_audit.evidence.chain import read_run
from alphabet_audit.evidence.schema import make_json_schema
from alphabet_testing.places import AUDIT

ACCEPTED = AUDIT / "accepted" / "cpu-2026-11-16"
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({MEASURING!r})); from alphabet_audit.cli import main; main()"


@pytest.mark.parametrize(
    "arguments", [["evaluate"], ["report", "--out", "OUT"], ["compare", "--paper", "--out", "OUT"]]
)
def test_a_run_is_judged_and_shown_where_nothing_that_measures_is_installed(arguments, tmp_path):
    given = [str(tmp_path) if each == "OUT" else each for each in arguments]
    command = [sys.executable, "-c", BLOCKED, given[0], str(ACCEPTED), *given[1:]]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout


def test_measuring_there_says_what_is_missing():
    run = subprocess.run([sys.executable, "-c", BLOCKED, "ledger"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "pip install alphabet-audit" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_published_schema_is_the_codes():
    published = json.loads((AUDIT / "evidence.schema.json").read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(make_json_schema()))


@pytest.mark.parametrize("version", [1, 2])
def test_the_published_schema_describes_whole_runs(version, whole_run):
    jsonschema = pytest.importorskip("jsonschema", reason="validates by another implementation, where it is installed")
    published = make_json_schema()["$defs"][f"version-{version}"]
    manifest, records = read_run(ACCEPTED if version == 1 else whole_run)
    validator = jsonschema.Draft202012Validator
    assert validator(published["manifest"]["ledger"]).is_valid(manifest)
    checks = {kind: validator({"anyOf": forms}) for kind, forms in published["record"].items()}
    for record in records[:: max(1, len(records) // 200)]:
        assert checks[record["kind"]].is_valid(record), record
        assert not checks[record["kind"]].is_valid({**record, "remark": 1})
        assert not checks[record["kind"]].is_valid({**record, "index": True})
