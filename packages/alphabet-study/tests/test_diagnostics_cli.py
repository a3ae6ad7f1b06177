"""The console command: every diagnostic runs small, refuses what it cannot do, and survives an interrupt."""

import pytest
from alphabet_study.diagnostics import rows
from alphabet_study.diagnostics.cli import app, choose_out
from alphabet_study.errors import StudyError
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALPHABET_DATA", raising=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_help_names_every_diagnostic():
    shown = run("--help").output
    assert all(name in shown for name in ("spectral", "ablation", "poles", "corruption"))


def test_quick_rows_never_mix_with_real_ones():
    assert choose_out(None, "poles", True) != choose_out(None, "poles", False)


@pytest.mark.parametrize("command", ["ablation", "poles"])
def test_tasks_without_files_are_named_with_what_to_do(command):
    found = run(command)
    assert isinstance(found.exception, StudyError)
    assert "of 17 tasks cannot be run: Coffee" in str(found.exception)
    assert "--available" in str(found.exception)


def test_corruption_refuses_without_a_campaign():
    assert run("corruption").exit_code == 2
    found = run("corruption", "--campaign", "nothing.sqlite", "--quick")
    assert isinstance(found.exception, StudyError)
    assert "there is no store" in str(found.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("spectral", "--quick"), "Moment-matched control"),
        (("ablation", "--quick", "--task", "ItalyPowerDemand"), "Structural ablation"),
        (("poles", "--quick", "--task", "ItalyPowerDemand"), "Pole audit"),
    ],
)
def test_a_quick_run_shows_a_table_and_the_same_command_again_computes_nothing(arguments, words, in_an_empty_folder):
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    assert words in first.output
    file = in_an_empty_folder / "study-runs" / "diagnostics" / f"{arguments[0]}-quick.csv"
    content = file.read_bytes()
    again = run(*arguments)
    assert "fits were done earlier" in again.output
    assert again.output.split(words)[1] == first.output.split(words)[1]
    assert file.read_bytes() == content


def test_an_interrupt_keeps_what_is_done_and_says_so(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rows.RowFile, "append", interrupted)
    found = run("spectral", "--quick", "--eps", "0.4")
    assert found.exit_code == 130
    assert "every finished fit is kept" in found.output
