"""Resuming is as strict as judging: a run that was cut, edited or sealed again is left as it is (points 5 and 18)."""

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import MANIFEST, RECORDS
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import Interrupting, run_fake

DECLARED = read_declarations()


def cut_lines(folder, count):
    path = folder / RECORDS
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-count]))


def rechain(folder, change):
    """The records changed and their chain closed again, with the manifest as it was."""
    run = read_run(folder, FILES)
    sealed = (folder / MANIFEST).read_bytes()
    change(run)
    run.write(folder)
    (folder / MANIFEST).write_bytes(sealed)


RESUMED = {
    "cut": lambda folder: cut_lines(folder, 150),
    "cut by one": lambda folder: cut_lines(folder, 1),
    "rewritten": lambda folder: rechain(folder, lambda run: run.records[60].update(verdict="fail")),
    "emptied": lambda folder: (folder / RECORDS).write_bytes(b""),
}


@pytest.mark.parametrize("name", RESUMED)
def test_point_5_a_finished_run_that_was_cut_or_rewritten_is_not_resumed(name, part):
    RESUMED[name](part)
    before = {path.name: path.read_bytes() for path in part.iterdir()}
    with pytest.raises(AuditError, match="not the 240 it was sealed with"):
        run_fake(part, "same-width")
    assert {path.name: path.read_bytes() for path in part.iterdir()} == before


def interrupt(folder, measurements=300):
    with pytest.raises(KeyboardInterrupt):
        run_fake(folder, "same-width", clock=Interrupting(measurements))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.of("group", 3).update(seconds=[0.02, 0.03, 0.04, 0.05]), "the raw samples give"),
        (lambda run: run.of("choice", 3).update(chosen="sequential"), "the samples give"),
        (lambda run: run.records.insert(40, run.records.pop(60)), "in the place of"),
        (lambda run: run.manifest.update(remark="fine"), "differs in|unknown field"),
        (lambda run: run.of("gate", 1)["readings"].pop(), "bad readings|readings are missing"),
    ],
)
def test_point_5_an_interrupted_run_that_was_forged_and_sealed_again_is_not_resumed(change, message, tmp_path):
    interrupt(tmp_path)
    run = read_run(tmp_path, FILES)
    change(run)
    run.write(tmp_path)
    with pytest.raises(AuditError, match=message):
        run_fake(tmp_path, "same-width")


def test_point_5_an_honest_run_with_a_failed_gate_is_resumed(tmp_path):
    wrong = {"same-width 32/512/64 cnn1d step", "same-width 32/512/64 alphabet inference"}
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(300), wrong=wrong)
    run_fake(tmp_path, "same-width", wrong=wrong)
    reasons = evaluate(tmp_path, DECLARED).reasons
    assert reasons
    assert all("gate" in reason or "missing" in reason for reason in reasons), reasons
