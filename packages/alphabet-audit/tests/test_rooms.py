"""Judging and showing a run needs neither torch nor numba nor anything that measures; the schema is published."""

import json
import shutil
import subprocess
import sys

import pytest
from alphabet_audit.cli import MEASURING
from alphabet_audit.evidence.chain import RECORDS, read_run
from alphabet_audit.evidence.schema import make_json_schema
from alphabet_audit.show.report import write_report
from alphabet_testing.audit.fake_bench import Interrupting, run_fake
from alphabet_testing.places import AUDIT

ACCEPTED = AUDIT / "accepted" / "cpu-2026-11-16"
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({MEASURING!r})); from alphabet_audit.cli import main; main()"


@pytest.mark.parametrize(
    "arguments", [["evaluate"], ["report", "--out", "OUT"], ["compare", "--paper", "--out", "OUT"]]
)
def test_a_run_is_judged_and_shown_where_nothing_that_measures_is_installed(arguments, tmp_path):
    given = [tmp_path if each == "OUT" else each for each in arguments]
    run = call_blocked(given[0], ACCEPTED, *given[1:])
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout


def call_blocked(*arguments):
    """What `alphabet-audit` says in a process in which nothing that measures can be imported."""
    command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_whole_ledger_is_killed_resumed_reported_sealed_signed_and_judged(tmp_path):
    """From the first record to a verdict by somebody else, in format 2, on the fake bench."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    run, key = tmp_path / "run", tmp_path / "key"
    with pytest.raises(KeyboardInterrupt):
        run_fake(run, clock=Interrupting(2000))
    half = (run / RECORDS).read_bytes()
    (run / RECORDS).write_bytes(half + b'{"kind":"gro')  # as a kill within a write leaves it
    declarations = run_fake(run)
    assert (run / RECORDS).read_bytes().startswith(half)
    pages, evaluation = write_report(run, declarations, run)
    assert (evaluation.status, evaluation.version) == ("pass", 2)
    assert (evaluation.counts["sessions"], evaluation.counts["resumes"]) == (2, 1)
    assert all(page.is_file() for page in pages)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    assert call_blocked("seal", run, "--key", key).returncode == 0
    judged = call_blocked("evaluate", run, "--signature", tmp_path / "key.pub")
    assert (judged.returncode, judged.stderr) == (0, "")
    assert "90 cells, 180 rows, 1,260 groups, 2 sessions, 1 resume\n" in judged.stdout
    assert judged.stdout.count("is what this evidence gives") == 2
    assert "the head is signed by the key in" in judged.stdout
    assert call_blocked("compare", run, ACCEPTED, "--across-devices").returncode == 0


def test_measuring_there_says_what_is_missing():
    run = call_blocked("ledger")
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
