"""The ledger records everything once, goes on after failures, and resumes after any kill."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.evidence.chain import MANIFEST, RECORDS, read_records
from alphabet_testing.audit.fake_bench import ENVIRONMENT, Interrupting, SilentListener, run_fake

KILLS = 40  # of each run
# `nox -s kills` kills 1,000 times, in runs of 40.
RUNS = -(-int(os.environ.get("ALPHABET_KILLS", str(KILLS))) // KILLS)


def read(folder):
    return read_records((folder / RECORDS).read_bytes(), RECORDS)


def of(records, kind):
    return [record for record in records if record["kind"] == kind]


def count_lines(folder):
    path = folder / RECORDS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_at_work(folder, records, delay):
    """Start or resume the run, and kill it some moments after it has written so many records."""
    command = [sys.executable, "-m", "alphabet_testing.audit.fake_bench"]
    environment = {**os.environ, "RUN": str(folder), "SCOPE": "all"}
    before = count_lines(folder)
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    while count_lines(folder) < before + records and process.poll() is None:
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, (process.returncode, errors)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(RUNS))
def test_forty_kills_lose_nothing_and_double_nothing(number, tmp_path):
    """SIGKILL at random moments; the same command resumes until it is done."""
    moments = random.Random(6 + number)
    for _ in range(KILLS):  # of some 2,100 records, so that the run outlasts all kills on a busy machine too
        kill_at_work(tmp_path, moments.randint(1, 11), moments.uniform(0.0, 0.02))
    run_fake(tmp_path)
    records = read(tmp_path)
    assert set(Counter((record["key"], record["number"]) for record in of(records, "group")).values()) == {1}
    assert len(of(records, "group")) == 200 * 7
    assert len(of(records, "session")) > KILLS // 2  # most were killed at work, some before they had begun
    assert of(records, "resume")
    found = evaluate(tmp_path, read_declarations())
    # Null rows whose seven ratios all fall on one side of one are no harm that a kill did: each does with probability
    # 2 / 2^7, so that two of twenty do in 3.8 % of runs, which the evaluator then refuses, and five in one of 100,000.
    assert {reason.partition(" in ")[0] for reason in found.reasons} <= {"noise: ALPHABET differs from itself"}
    assert sum(reason.count(" step") + reason.count(" inference") for reason in found.reasons) < 5
    assert found.status == ("fail" if found.reasons else "pass")


def test_an_interruption_keeps_every_finished_group(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(200))
    before = read(tmp_path)
    run_fake(tmp_path, "same-width")
    after = read(tmp_path)
    assert after[: len(before)] == before
    assert evaluate(tmp_path, read_declarations()).status == "partial"


def test_a_finished_run_is_left_as_it_is(tmp_path):
    run_fake(tmp_path, "same-width")
    content = (tmp_path / RECORDS).read_bytes()
    run_fake(tmp_path, "same-width")
    assert (tmp_path / RECORDS).read_bytes() == content


def test_a_failed_gate_gives_a_row_without_timings(tmp_path):
    wrong = "same-width 32/512/64 s5 step"
    declarations = run_fake(tmp_path, "same-width", wrong={wrong})
    records = read(tmp_path)
    (row,) = [record for record in of(records, "row") if record["key"] == wrong]
    assert row["status"] == "gate-failed"
    assert "ratio" not in row
    assert not [record for record in of(records, "group") if record["key"] == wrong]
    assert sum("ratio" in record for record in of(records, "row")) == 19
    reasons = evaluate(tmp_path, declarations).reasons
    assert any(wrong in reason and "fails" in reason for reason in reasons)


def test_a_wrong_alphabet_is_timed_against_nobody(tmp_path):
    run_fake(tmp_path, "same-width", wrong={"same-width 32/512/64 alphabet inference"})
    rows = of(read(tmp_path), "row")
    assert {row["status"] for row in rows if row["phase"] == "inference"} == {"gate-failed"}
    assert {row["status"] for row in rows if row["phase"] == "step"} == {"timed"}


def test_a_crash_is_recorded_and_the_run_goes_on(tmp_path):
    crashed = "same-width 32/512/64 gru inference"
    declarations = run_fake(tmp_path, "same-width", crashing={crashed})
    rows = {row["key"]: row for row in of(read(tmp_path), "row")}
    assert len(rows) == 20
    assert (rows[crashed]["status"], rows[crashed]["error"]) == ("crashed", "RuntimeError: out of memory")
    assert any("out of memory" in reason for reason in evaluate(tmp_path, declarations).reasons)


def test_a_family_of_which_no_execution_agrees_is_not_timed(tmp_path):
    wrong = {f"same-width lru step {name}" for name in ("adjoint", "fft", "chunked", "associative", "sequential")}
    declarations = run_fake(tmp_path, "same-width", wrong=wrong)
    (row,) = [row for row in of(read(tmp_path), "row") if row["key"] == "same-width 32/512/64 lru step"]
    assert row["error"] == "no execution of lru agrees with its reference"
    assert "same-width lru step: no execution agrees with its reference" in evaluate(tmp_path, declarations).reasons


def test_evidence_of_another_environment_is_not_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(100))
    versions = {**ENVIRONMENT["versions"], "torch": "2.9.1"}
    with pytest.raises(AuditError, match="differs in environment"):
        run_fake(tmp_path, "same-width", environment={**ENVIRONMENT, "versions": versions})


class Listening(SilentListener):
    def __init__(self):
        self.begun, self.rows = None, []

    def begin(self, done, total):
        self.begun = len(done), total

    def finish(self, row):
        self.rows.append(row["key"])


def test_the_listener_hears_of_every_row_once_and_of_what_is_left(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", listener=(first := Listening()), clock=Interrupting(300))
    run_fake(tmp_path, "same-width", listener=(second := Listening()))
    assert first.begun == (0, 20)
    assert second.begun == (len(first.rows), 20)
    assert len({*first.rows, *second.rows}) == len(first.rows) + len(second.rows) == 20


def test_the_manifest_is_sealed_row_by_row(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(300))
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert manifest["finished"] is False
    assert manifest["records"] > 0
    assert any("not finished" in reason for reason in evaluate(tmp_path, read_declarations()).reasons)
