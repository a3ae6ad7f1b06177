"""The points of the review of the evidence: every forgery that was once accepted is refused, in both versions."""

import pickle

import pytest
from alphabet_audit import evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.show.report import REPORT_FORMAT
from alphabet_audit.show.results import read_results
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import Interrupting, run_fake
from alphabet_testing.audit.review_forgeries import CASES, FORGERIES
from alphabet_testing.places import AUDIT

DECLARED = read_declarations()
ACCEPTED = AUDIT / "accepted" / "cpu-2026-11-16"


@pytest.fixture(scope="module")
def runs(whole_run):
    """One whole run of each version, which pass: the accepted ledger, and the fake bench's."""
    copies = {1: read_run(ACCEPTED, FILES), 2: read_run(whole_run, FILES)}
    assert all(run.manifest["version"] == version for version, run in copies.items())
    assert all(run.judge(DECLARED).status == "pass" for run in copies.values())
    return {version: pickle.dumps(run) for version, run in copies.items()}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("point", "name"), CASES, ids=lambda value: str(value))
def test_a_forgery_of_the_review_is_refused(point, name, version, runs):
    forged = pickle.loads(runs[version])
    before = pickle.dumps((forged.records, forged.manifest))
    FORGERIES[point][name](forged)
    if pickle.dumps((forged.records, forged.manifest)) == before:
        pytest.skip("this run has no record of that kind")
    found = forged.judge(DECLARED)
    assert found.status == "fail"
    assert found.reasons
    assert all(reason.isprintable() for reason in found.reasons)


def test_point_6_rules_are_the_packages_own_unless_a_folder_is_named(part, tmp_path, monkeypatch):
    """A bundle that brings its own audit/ folder does not change what it is judged by."""
    bundle = part.parent / "audit"
    bundle.mkdir()
    for name, content in DECLARED.contents.items():
        (bundle / name).write_bytes(content.replace(b"slack = 3.0", b"slack = 300.0"))
    monkeypatch.chdir(part.parent)
    found = command("evaluate", part)
    assert found.exit_code == 3
    own = ", ".join(f"{name} {digest[:12]}" for name, digest in DECLARED.digests.items())
    assert f"rules: alphabet-audit's own, {own}" in found.stdout
    other = command("evaluate", part, "--audit", bundle)
    assert other.exit_code == 1
    assert f"rules: {bundle}" in other.stdout.replace("\n", "")


def test_point_15_a_reason_cannot_print_a_line_of_its_own(part, capsys):
    run = read_run(part, FILES)
    row = run.of("row", 0)
    row["key"] = "x\nstatus=pass scope=all device=cpu\x1b[2J\r"
    run.write(part)
    found = command("evaluate", part)
    lines = found.stdout.splitlines()
    assert [line for line in lines if line.startswith("status=")] == [lines[0]]
    assert lines[0].startswith("status=fail")
    assert "\x1b" not in found.stdout
    assert "\\nstatus=pass" in found.stdout


def test_point_17_an_edited_report_beside_intact_evidence_is_said(part):
    command("report", part)
    found = command("evaluate", part)
    assert "report.html is what this evidence gives" in found.stdout
    assert "report.md is what this evidence gives" in found.stdout
    for name in ("report.md", "report.html"):
        whole = (part / name).read_text()
        ratio = f"{read_results(part, DECLARED).rows['same-width 32/512/64', 'gru', 'step']['ratio']:.2f}"
        (part / name).write_text(whole.replace(ratio, "99.99"))
        edited = command("evaluate", part)
        assert edited.exit_code == 1
        assert f"{name} is not what this evidence gives" in edited.stdout
        # Nor does it help to take away the line that says which code made it, or to name older code.
        (part / name).write_text(whole.replace(REPORT_FORMAT, "by hand"))
        assert f"{name} is not what this evidence gives" in command("evaluate", part).stdout
        (part / name).write_text(whole.replace(ratio, "99.99").replace(REPORT_FORMAT, "alphabet-audit report 2"))
        assert f"{name} does not show what this evidence gives" in command("evaluate", part).stdout
        (part / name).write_text(whole.replace(REPORT_FORMAT, "alphabet-audit report 2"))
        assert f"{name} was written by another version" in command("evaluate", part).stdout
        (part / name).write_text(whole)


def test_point_18_sessions_and_resumes_are_counted_and_shown(tmp_path):
    for measurements in range(1, 9):
        with pytest.raises(KeyboardInterrupt):
            run_fake(tmp_path, "same-width", clock=Interrupting(30 + measurements))
    run_fake(tmp_path, "same-width")
    found = command("evaluate", tmp_path)
    counts = evaluate(tmp_path, DECLARED).counts
    assert counts["sessions"] == 9
    assert counts["resumes"] > 0
    assert f"9 sessions, {counts['resumes']} resumes" in found.stdout
    assert f"worth a look: run: 9 sessions, {counts['resumes']} rows resumed" in found.stdout
    command("report", tmp_path)
    assert f"Sessions: 9, rows resumed: {counts['resumes']}." in (tmp_path / "report.md").read_text()


def test_point_19_report_and_compare_of_an_incomplete_run_say_so(tmp_path, part):
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path / "cut", "same-width", clock=Interrupting(300))
    assert command("report", tmp_path / "cut").exit_code == 1
    assert "not run" in (tmp_path / "cut" / "report.html").read_text()
    assert command("compare", part, tmp_path / "cut").exit_code == 0
    run_fake(tmp_path / "wrong", "same-width", wrong={"same-width 32/512/64 s5 step"})
    assert command("report", tmp_path / "wrong").exit_code == 1
    assert command("report", part).exit_code == 3
