"""The points of the review of the evidence: every forgery that was once accepted is refused, in both versions."""

import html.parser
import os
import pickle
import subprocess
import sys

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.cli import app
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import MANIFEST, RECORDS
from alphabet_audit.show.results import read_results
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import Interrupting, run_fake
from alphabet_testing.audit.review_forgeries import CASES, FORGERIES
from alphabet_testing.places import AUDIT
from typer.testing import CliRunner

DECLARED = read_declarations()
ACCEPTED = AUDIT / "accepted" / "cpu-2026-11-16"


def command(*arguments):
    """What a command printed, and its exit code."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


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


@pytest.fixture
def part(tmp_path):
    """A run of one design, finished, in a folder that a test may change."""
    run_fake(tmp_path / "run", "same-width")
    return tmp_path / "run"


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


SCRIPT = "<script>alert('run')</script><img src=x onerror=alert(1)>"


def plant_script(value):
    """Every string of a value with a script in it."""
    if isinstance(value, str):
        return value + SCRIPT
    if isinstance(value, list):
        return [plant_script(each) for each in value]
    if isinstance(value, dict):
        return {name: plant_script(each) for name, each in value.items()}
    return value


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        self.found |= {tag, *(name for name, _ in attributes)}


def test_point_7_a_script_in_every_string_becomes_no_markup(part):
    """Strings of records and manifest, wherever their forms allow any words; the run fails, and its page shows why."""
    run = read_run(part, FILES)
    for record in run.records:
        for name in ("design", "opponent", "key", "execution", "detail", "error"):
            if name in record:
                record[name] = plant_script(record[name])
    environment = run.manifest["environment"]
    for place in (environment["device"], environment["system"], environment["versions"]):
        place |= {name: plant_script(value) for name, value in place.items() if name not in ("type", "python")}
    run.manifest["plan"] |= {name: plant_script(run.manifest["plan"][name]) for name in ("designs", "families")}
    run.manifest["cells"] = {
        plant_script(design): {plant_script(family): entry for family, entry in entries.items()}
        for design, entries in run.manifest["cells"].items()
    }
    run.begin_again()
    run.write(part)
    assert command("report", part).exit_code == 1
    page = (part / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert page.count("alert(") > 30
    assert not {"script", "img", "onerror", "src", "href"} & tags.found
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    assert "<script" not in (part / "report.md").read_text().replace("\\<", "")
    assert command("compare", part, part, "--out", part).exit_code == 0
    tags.feed((part / "compare.html").read_text())
    assert not {"script", "img", "onerror"} & tags.found


def test_point_7_a_script_in_the_design_of_a_null_row_becomes_no_markup(part):
    """As it was found: the picture of the noise wrote it as it stood."""
    run = read_run(part, FILES)
    for record in run.records:
        if record["kind"] == "row" and record["opponent"] == "alphabet":
            record["design"] += SCRIPT
    run.write(part)
    command("report", part)
    page = (part / "report.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert "&lt;script&gt;alert" in page[page.index('aria-label="noise"') :]
    assert not {"script", "img", "onerror"} & tags.found


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_point_8_a_link_under_a_drafts_name_is_not_written_through(name, part, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (part / f"{name}.draft").symlink_to(victim)
    (part / name).symlink_to(victim)
    command("report", part)
    assert victim.read_text() == "mine"
    assert (part / name).is_file()
    assert not (part / name).is_symlink()


def test_point_8_evidence_is_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECORDS).symlink_to(victim)
    with pytest.raises(AuditError, match="cannot be written"):
        run_fake(tmp_path / "run", "same-width")
    assert victim.read_text() == ""


ODD_MANIFESTS = {
    "infinity by overflow": lambda text: text.replace('"torch": 2', '"torch": 1e999', 1),
    "a number of 5,000 digits": lambda text: text.replace('"torch": 2', '"torch": ' + "9" * 5000, 1),
    "a hundred thousand brackets": lambda text: "[" * 100_000,
    "a lone surrogate": lambda text: text.replace("a processor", "\\ud800 a processor", 1),
    "a word": lambda text: '"manifest"',
    "nothing": lambda text: "",
    "a version that is true": lambda text: text.replace('"version": 2', '"version": true'),
    "point 16, a name twice": lambda text: text.replace('"device": "cpu"', '"device": "cuda", "device": "cpu"', 1),
    "point 16, a name twice inside": lambda text: text.replace('"cores": 2', '"cores": 64, "cores": 2', 1),
}


@pytest.mark.parametrize("name", ODD_MANIFESTS)
def test_points_13_and_16_an_odd_manifest_is_a_reason(name, part):
    text = (part / MANIFEST).read_text()
    odd = ODD_MANIFESTS[name](text)
    assert odd != text
    (part / MANIFEST).write_text(odd)
    found = command("evaluate", part)
    assert (found.exit_code, found.stdout[:11]) == (1, "status=fail")
    assert isinstance(found.exception, SystemExit)
    for name in ("report", "seal"):
        refused = command(name, part)
        assert isinstance(refused.exception, AuditError), refused.exception


@pytest.mark.parametrize("value", ["inf", "-1", "nan", "true", "1e400", '"two"', "0", "[2]"])
def test_point_13_an_odd_number_in_the_designs_is_refused_in_words(value, tmp_path):
    for name, content in DECLARED.contents.items():
        (tmp_path / name).write_bytes(content.replace(b"channels = 2", b"channels = " + value.encode()))
    with pytest.raises(AuditError, match="channels"):
        read_declarations(tmp_path)


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
        # Nor does it help to take away the line that says which code made it.
        (part / name).write_text(whole.replace(ratio, "99.99").replace("alphabet-audit report 2", "by hand"))
        assert f"{name} does not show what this evidence gives" in command("evaluate", part).stdout
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
    interrupt(tmp_path / "cut")
    assert command("report", tmp_path / "cut").exit_code == 1
    assert "not run" in (tmp_path / "cut" / "report.html").read_text()
    assert command("compare", part, tmp_path / "cut").exit_code == 0
    run_fake(tmp_path / "wrong", "same-width", wrong={"same-width 32/512/64 s5 step"})
    assert command("report", tmp_path / "wrong").exit_code == 1
    assert command("report", part).exit_code == 3


@pytest.mark.parametrize("name", [RECORDS, MANIFEST, "designs.toml", "report.md"])
def test_point_19_a_pipe_or_an_endless_file_does_not_hang(name, part):
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (part / name).unlink(missing_ok=True)
        make(part / name)
        run = subprocess.run(
            [sys.executable, "-m", "alphabet_audit", "evaluate", str(part)], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 1
        assert "is not a regular file" in run.stdout
        assert "Traceback" not in run.stderr


def test_a_link_to_itself_or_a_folder_is_no_file(part):
    for name in (MANIFEST, RECORDS):
        whole = (part / name).read_bytes()
        (part / name).unlink()
        (part / name).symlink_to(part / name)
        assert command("evaluate", part).exit_code == 1
        (part / name).unlink()
        (part / name).mkdir()
        assert command("evaluate", part).exit_code == 1
        (part / name).rmdir()
        (part / name).write_bytes(whole)
    assert command("evaluate", part).exit_code == 3
