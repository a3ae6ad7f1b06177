"""A second attack, with the format at hand: what contradicts itself is refused, what is merely odd is remarked."""

import copy
import hashlib

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.declare.executions import read_executions
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import Interrupting, run_fake
from alphabet_testing.audit.record_faults import summarize_again
from alphabet_testing.audit.review_choices import of
from alphabet_testing.audit.review_manifests import manifest
from alphabet_testing.places import AUDIT

DECLARED = read_declarations()


@pytest.fixture
def run(tmp_path):
    """A run of one design that was interrupted within a row and resumed, to be forged in memory."""
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(310))
    run_fake(tmp_path, "same-width")
    found = read_run(tmp_path, FILES)
    assert of(found, "resume")
    assert found.judge(DECLARED).status == "partial"
    return found


def warmups_of_its_start(run):
    resume = of(run, "resume")[0]
    start = next(record for record in of(run, "start") if record["key"] == resume["key"])
    resume["warmups"] = copy.deepcopy(start["warmups"])


def calibration_of_the_other_arm(run):
    start = of(run, "start")[0]
    start["calibration"]["B"], start["repeats"]["B"] = list(start["calibration"]["A"]), start["repeats"]["A"]
    for group in of(run, "group"):
        if group["key"] == start["key"]:
            group["repeats"] = dict(start["repeats"])
    summarize_again(run, start["key"])


def two_blocks_of_another_group(run):
    one, other = of(run, "group")[10], of(run, "group")[40]
    other["seconds"][:2] = one["seconds"][:2]
    summarize_again(run, other["key"])


def older_version(run):
    """All that version 1 records, and nothing of what it does not: no times of sessions, no gates after groups."""
    environment = run.manifest["environment"]
    for name in ("sources", "libraries", "kernels", "vectors"):
        environment.pop(name)
    files = ["alphabet_audit/ledger.py", "alphabet_cpu/runtime.py", "alphabet_baselines/registry.py",
             "alphabet_core/model.py", *(f"{name}/__init__.py" for name in environment["versions"])]  # fmt: skip
    environment["imports"] = dict.fromkeys(files, "cd" * 32)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in run.copies.items()}
    run.manifest |= {"version": 1, "declarations": hashes, "created": "2026-12-01T10:00:00+00:00"}
    run.records[:] = [record for record in run.records if record["kind"] != "after"]
    for record in run.records:
        record.pop("begun", None)
        if record["kind"] == "gate":
            record["readings"] = [each for each in record["readings"] if not each["quantity"].startswith("timed: ")]
    run.begin_again()


REFUSED = {
    "a session at no time": (
        lambda run: of(run, "session")[1].update(begun="2026-99-99T99:99:99+00:00"), "which is no time"),
    "more cores than there are": (
        manifest(environment__threads__usable=64), "64 cores were usable of a device that has 2"),
    "warm-ups copied": (warmups_of_its_start, "warm-ups of A in record .*: one is a copy"),
    "calibration copied": (calibration_of_the_other_arm, "calibration of B: .*: one is a copy"),
    "two blocks copied": (two_blocks_of_another_group, "2 of its blocks took exactly as long as those of"),
    "a warm-up of no time": (
        lambda run: of(run, "start")[3]["warmups"].update(A=[2e-9] * 5), "a warm-up of A took 2.2e-07"),
    "an older version": (older_version, "is of version 1, begun after runs were written in version 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_refused(name, run):
    forge, reason = REFUSED[name]
    forge(run)
    found = run.judge(DECLARED)
    assert found.status == "fail"
    with pytest.raises(AssertionError, match=reason):  # as pytest matches: anywhere in the reasons
        raise AssertionError(" ".join(found.reasons))


def faster_alphabet(run):
    """ALPHABET five times as fast in two rows as in all others of their design."""
    for record in run.records:
        if " gru " in record.get("key", "") and record["kind"] == "group":
            blocks = zip(record["order"], record["seconds"], strict=True)
            record["seconds"] = [seconds * (0.2 if arm == "A" else 1.0) for arm, seconds in blocks]
    for row in of(run, "row"):
        summarize_again(run, row["key"])


def errors_of_zero(run):
    for gate in of(run, "gate"):
        for reading in gate["readings"]:
            reading["error"] = 0.0


def sessions_at_once(run):
    """The second session at the moment of the first, although seconds were timed between them."""
    first, second = of(run, "session")
    second["begun"] = first["begun"]


REMARKED = {
    "a faster ALPHABET": (faster_alphabet, "gru step: ALPHABET took 0.2 times as long as it usually did"),
    "errors of zero": (errors_of_zero, "gru step: all 2 errors that its gate read are exactly zero"),
    "sessions at once": (sessions_at_once, "s of blocks in the 0 s before the session of record"),
}


@pytest.mark.parametrize("name", REMARKED)
def test_what_is_odd_but_possible_is_remarked(name, run):
    forge, text = REMARKED[name]
    forge(run)
    found = run.judge(DECLARED)
    assert found.status == "partial"
    assert any(text in remark.describe() for remark in found.remarks), found.remarks


def test_an_execution_that_was_left_out_is_remarked(run):
    """On a CPU with --compiled; a compiler that fails is no reason against a run, but its author may have made it."""
    run.manifest["compiled"] = True
    run.manifest["environment"]["vectors"]["inductor"] = "INVALID_VEC_ISA, march=native"
    run.begin_again()
    for choice in of(run, "choice"):
        known = {each["name"]: each for each in choice["candidates"]}
        excused = {"readings": [], "seconds": [], "reason": "BackendError: no compiler"}
        names = read_executions().names(choice["key"].split()[1], "cpu", compiled=True)
        choice["candidates"] = [known.get(name, {"name": name, **excused}) for name in names]
    found = run.judge(DECLARED)
    shown = [remark.describe() for remark in found.remarks]
    assert "same-width cnn1d step: gemm, compiled was not timed: BackendError: no compiler" in shown, found.reasons[:3]
    assert not any("official was not timed" in each for each in shown)


def test_a_run_that_is_called_finished_before_its_end_is_not_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path, "same-width", clock=Interrupting(310))
    run = read_run(tmp_path, FILES)
    run.manifest["finished"] = True
    run.write(tmp_path)
    with pytest.raises(AuditError, match="the records end before group"):
        run_fake(tmp_path, "same-width")


def test_a_run_of_an_environment_that_contradicts_itself_is_not_resumed(part):
    run = read_run(part, FILES)
    manifest(created="2026-02-30T10:00:00+00:00")(run)
    run.write(part)
    with pytest.raises(AuditError, match="which is no time"):
        run_fake(part, "same-width")


def test_a_head_that_is_not_the_evidences_is_a_reason_without_a_signature_too(part):
    assert command("seal", part).exit_code == 0
    assert "head.txt is the head of this evidence" in command("evaluate", part).stdout
    run = read_run(part, FILES)
    of(run, "start")[0]["warmups"]["A"][0] *= 1.01
    run.write(part)
    assert evaluate(part, DECLARED).status == "partial"
    found = command("evaluate", part)
    assert found.exit_code == 1
    assert "is not the head of this evidence" in found.stdout.replace("\n", "")


@pytest.mark.parametrize("name", ["head.txt", "report.md", "report.html"])
def test_a_link_to_nothing_beside_the_evidence_is_a_reason(name, part):
    (part / name).symlink_to(part / "nothing")
    found = command("evaluate", part)
    assert (found.exit_code, found.stdout[:11]) == (1, "status=fail")
    assert "cannot be read" in found.stdout


def test_words_of_several_lines_in_version_1_are_one_line_in_a_reason():
    """Whose form allows them: a message of torch's may have many."""
    run = read_run(AUDIT / "accepted" / "cpu-2026-11-16", FILES)
    trial = next(each for each in of(run, "choice")[0]["candidates"] if each["seconds"])
    trial |= {"seconds": [], "reason": "a\nline"}
    found = run.judge(DECLARED)
    assert any("was not timed: a\\nline" in reason for reason in found.reasons)
    assert all(reason.isprintable() for reason in found.reasons)
