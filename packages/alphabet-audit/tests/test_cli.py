"""The commands: what they print, and that their exit codes are the verdicts."""

import subprocess
import sys

import pytest
from alphabet_audit.cli import main
from alphabet_audit.evidence.chain import RECORDS
from alphabet_testing.audit.commands import command
from alphabet_testing.audit.fake_bench import run_fake


def test_evaluate_passes_whole_evidence(whole_run):
    found = command("evaluate", whole_run)
    assert found.exit_code == 0
    assert found.stdout.startswith(
        "status=pass scope=all device=cpu version=2\n90 cells, 180 rows, 1,260 groups, 1 session, 0 resumes\n"
    )


def test_evaluate_prints_every_reason_and_fails(tmp_path):
    run_fake(tmp_path, "same-width", crashing={f"same-width 32/512/64 {name} step" for name in ("gru", "lstm")})
    found = command("evaluate", tmp_path)
    assert found.exit_code == 1
    assert found.stdout.startswith("status=fail")
    assert found.stdout.count("out of memory") == 2


def test_a_part_has_an_exit_code_of_its_own(tmp_path):
    run_fake(tmp_path, "same-width")
    found = command("evaluate", tmp_path)
    assert found.exit_code == 3
    assert "status=pass needs a whole run" in found.stdout


def test_report_and_compare(tmp_path, whole_run):
    found = command("report", whole_run, "--out", tmp_path / "page")
    assert found.exit_code == 0
    assert (tmp_path / "page" / "report.html").is_file()
    compared = command("compare", whole_run, whole_run)
    assert compared.exit_code == 0
    assert compared.stdout.count("1.000") == 180


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger", "--device", "tpu"], "--device 'tpu' is unknown; use one of cpu, cuda"),
        (["ledger", "--row", "tall"], "--row 'tall' is not in the ledger"),
        (["ledger", "--audit", "nowhere"], "give --audit the folder that holds it"),
        (["report", "nowhere"], "nowhere is not the folder of a run"),
        (["compare", "nowhere", "nowhere"], "nowhere is not the folder of a run"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["alphabet-audit", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("alphabet-audit: ")
    assert message in said
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_not_resumed(tmp_path, monkeypatch, capsys):
    run_fake(tmp_path / "run", "same-width")
    content = (tmp_path / "run" / RECORDS).read_bytes()
    (tmp_path / "run" / RECORDS).write_bytes(content.replace(b'"number":3', b'"number":4', 1))
    monkeypatch.setattr(sys, "argv", ["alphabet-audit", "report", str(tmp_path / "run")])
    with pytest.raises(SystemExit):
        main()
    assert "does not follow the line before" in capsys.readouterr().err


def test_what_only_reads_works_on_a_system_without_locks(tmp_path, whole_run, monkeypatch):
    """As on Windows, whose Python has no fcntl."""
    code = "import sys; sys.modules['fcntl'] = None; from alphabet_audit.cli import main; main()"
    assert subprocess.run([sys.executable, "-c", code, "--help"], check=False, capture_output=True).returncode == 0
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert command("evaluate", whole_run).exit_code == 0
    assert command("report", whole_run, "--out", tmp_path).exit_code == 0
    assert command("compare", whole_run, whole_run).exit_code == 0


def test_help_lists_the_five_commands_without_loading_torch():
    code = "import sys; from alphabet_audit.cli import app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    text = command("--help").stdout
    assert all(name in text for name in ("parity", "ledger", "evaluate", "report", "compare"))
