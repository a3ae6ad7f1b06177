"""The commands: what they print, what they leave behind, and their exit codes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alphabet_core import AlphabetError
from alphabet_study.campaign import choices
from alphabet_study.campaign.choices import AVAILABLE, EMBEDDED, choose_families, choose_tasks
from alphabet_study.campaign.store import Store
from alphabet_study.cli import app, main
from alphabet_study.data_root import embedded_folder
from alphabet_study.errors import StudyError
from alphabet_study.protocol import fitting
from alphabet_study.protocol.records import Cell
from alphabet_study.protocol.settings import SMALL
from alphabet_study.registry import ALL, TASKS
from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    deterministic_export,
    failing_run_job,
    hashed_run_job,
    run_small,
    small_plan,
)
from typer.testing import CliRunner, Result

TASK = "ItalyPowerDemand"


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALPHABET_DATA", raising=False)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def run_campaign_with(run_job: Callable[..., object], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    monkeypatch.setattr(fitting, "run_job", run_job)
    return run("run", "--task", TASK, "--family", "gru", "--workers", 1, *arguments)


@pytest.mark.slow
def test_a_campaign_runs_resumes_exports_imports_and_shows_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_campaign_with(hashed_run_job, monkeypatch)
    assert found.exit_code == 0
    assert "8 fits (tasks: 1, families: 1); records in study-runs/small.sqlite" in found.stdout
    assert "8 done, 0 left" in found.stdout
    assert "next: alphabet-study table --store study-runs/small.sqlite" in found.stdout
    again = run_campaign_with(hashed_run_job, monkeypatch)
    assert again.exit_code == 0
    assert "resuming: 8 of 8 fits are recorded already" in again.stdout
    assert "changed" not in again.stdout
    assert f"{TASK}  gru        4/4      2/2    2/2" in run("status").stdout
    assert run("export", "out/fits.csv").stdout == "8 fits: out/fits.csv\n"
    assert run("import", "out/fits.csv", "--store", "copy.sqlite").stdout == "8 new fits in copy.sqlite\n"
    assert run("import", "out/fits.csv", "--store", "copy.sqlite").stdout == "0 new fits in copy.sqlite\n"
    assert deterministic_export(Path("copy.sqlite")) == deterministic_export(Path("study-runs/small.sqlite"))
    table = run("table", "--store", "copy.sqlite", "--page", "page.md")
    assert table.exit_code == 0
    assert TASK in table.stdout
    assert TASK in Path("page.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_failed_fit_is_an_exit_code_of_1_until_it_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_campaign_with(failing_run_job, monkeypatch)
    assert found.exit_code == 1
    assert f"failed: {TASK}/gru/screen/3/7: RuntimeError: a planted error" in found.stdout
    assert "3 done, 1 failed, 4 left" in found.stdout
    assert "1 failed fit(s); `--retry-failed` runs them again" in found.stdout
    assert f"failed: {TASK}/gru/screen/3/7" in run("status").stdout
    assert run_campaign_with(hashed_run_job, monkeypatch).exit_code == 1
    assert run_campaign_with(hashed_run_job, monkeypatch, "--retry-failed").exit_code == 0


SLOW_COMMAND = """
from alphabet_study.protocol import fitting
from alphabet_testing.study_campaigns import slow_run_job
fitting.run_job = slow_run_job
from alphabet_study.campaign.progress import Progress
Progress.__init__.__defaults__ = (0.0,)  # a line at every look, in place of every 30 seconds
from alphabet_study.cli import main
main()
"""


@pytest.mark.slow
def test_interrupting_twice_is_an_exit_code_of_130_and_leaves_a_store_that_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-u", "-c", SLOW_COMMAND, "run", "--task", TASK, "--family", "gru", "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            if f"now {TASK}/gru/screen/0/7" in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        for line in process.stdout:
            output.append(line)
            if "Ctrl-C again drops them" in line:
                os.killpg(process.pid, signal.SIGINT)
                break
        output += list(process.stdout)
    assert process.returncode == 130
    assert "every finished fit is kept, and the same command resumes" in output[-1]
    with Store.read(tmp_path / "study-runs" / "small.sqlite") as store:
        assert store.records() == []
    assert run_campaign_with(hashed_run_job, monkeypatch).exit_code == 0


def test_results_of_an_incomplete_campaign_are_refused_with_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    plan = small_plan(TASK, families=("gru",))
    engine = InlineEngine(HashedFit(crashing=((f"{TASK}/gru/confirm/1/11", "error"),)))
    with pytest.raises(RuntimeError, match="planted"):
        run_small(Path("store.sqlite"), plan, engine)
    assert mistake("table", "--store", "store.sqlite", capsys=capsys).startswith(
        f"alphabet-study: store.sqlite: 3 of 8 fits have no record: {TASK}/gru/confirm/1/11, "
    )
    partial = run("table", "--store", "store.sqlite", "--partial")
    assert partial.exit_code == 0
    assert "no final yet" in partial.stdout


def test_a_planned_cell_that_never_began_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_small(Path("store.sqlite"), small_plan(TASK, families=("gru",)), InlineEngine(HashedFit()))
    assert run("table", "--store", "store.sqlite").exit_code == 0
    with Store.create_or_resume(tmp_path / "store.sqlite", SMALL, {}) as store:
        store.note_planned([Cell("GunPoint", "lru")])
    run("export", "fits.csv", "--store", "store.sqlite")
    run("import", "fits.csv", "--store", "copy.sqlite")
    for path in ("store.sqlite", "copy.sqlite"):
        said = mistake("table", "--store", path, capsys=capsys)
        assert "8 of 16 fits have no record: GunPoint/lru/screen/0/7, " in said
    partial = run("table", "--store", "store.sqlite", "--partial", "--page", "page.md")
    assert partial.exit_code == 0
    assert "not begun" in partial.stdout
    assert "GunPoint/lru: not begun" in Path("page.md").read_text(encoding="utf-8")


def test_a_campaign_of_which_nothing_began_shows_its_cells() -> None:
    with Store.create_or_resume(Path("store.sqlite"), SMALL, {}) as store:
        store.note_planned([Cell("GunPoint", "lru")])
    partial = run("table", "--store", "store.sqlite", "--partial")
    assert partial.exit_code == 0
    assert "not begun" in partial.stdout


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("DELETE FROM fits WHERE stage = 'screen'", "4 of 6 fits of the selection are missing"),
        ("UPDATE fits SET candidate = 'another' WHERE stage = 'final' AND seed = 31", "trained under"),
        ("UPDATE fits SET candidate = 'another' WHERE stage = 'screen' AND slot = 3", "belongs in this slot"),
        ("UPDATE fits SET score = 2.0 WHERE stage = 'confirm'", "trained under"),
    ],
)
def test_finals_that_their_selection_does_not_bear_out_are_incomplete(change: str, found: str) -> None:
    run_small(Path("store.sqlite"), small_plan(TASK, families=("gru",)), InlineEngine(HashedFit(diverging=0)))
    with Store.create_or_resume(Path("store.sqlite"), SMALL, {}) as store:
        store._connection.execute(change)
    assert run("table", "--store", "store.sqlite", "--partial", "--page", "page.md").exit_code == 0
    lines = Path("page.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if f"{TASK}/gru: " in line and re.search(found, line)]


@pytest.mark.parametrize("partial", [[], ["--partial"]], ids=["complete", "partial"])
@pytest.mark.parametrize(
    ("change", "strange"),
    [
        ("UPDATE fits SET slot = 99 WHERE stage = 'screen' AND slot = 3", f"{TASK}/gru/screen/99/7"),
        ("UPDATE fits SET seed = 8 WHERE stage = 'screen' AND slot = 3", f"{TASK}/gru/screen/3/8"),
        ("UPDATE fits SET slot = 1 WHERE stage = 'final' AND seed = 31", f"{TASK}/gru/final/1/31"),
        ("UPDATE fits SET family = 'rnn' WHERE stage = 'confirm' AND slot = 0", f"{TASK}/rnn/confirm/0/11"),
    ],
)
def test_records_that_no_plan_has_are_refused_by_name(
    change: str, strange: str, partial: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run_small(Path("store.sqlite"), small_plan(TASK, families=("gru",)), InlineEngine(HashedFit(diverging=0)))
    with Store.create_or_resume(Path("store.sqlite"), SMALL, {}) as store:
        copied = "SELECT * FROM fits WHERE " + change.partition(" WHERE ")[2]
        store._connection.executescript(
            f"CREATE TEMP TABLE kept AS {copied}; {change}; INSERT INTO fits SELECT * FROM kept;"
        )
        assert len(store.records()) == 9
    said = mistake("table", "--store", "store.sqlite", *partial, capsys=capsys)
    assert f"store.sqlite: 1 of 9 records are of fits that no plan with the settings 'small' has: {strange}. " in said
    assert "delete them" in said


@pytest.mark.slow
def test_a_campaign_that_goes_on_with_other_code_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Store.create_or_resume(Path("old.sqlite"), SMALL, {"versions": {"torch": "0.1"}, "sources": "old"}).close()
    found = run_campaign_with(hashed_run_job, monkeypatch, "--store", "old.sqlite")
    assert found.exit_code == 0
    (line,) = [line for line in found.stdout.splitlines() if "changed" in line]
    assert line.startswith("note: code or libraries changed since these records began (sources old then, ")
    assert "torch 0.1 then, " in line


def test_what_alphabet_core_refuses_is_a_mistake_and_another_error_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(kind: type[Exception]) -> None:
        raise kind("planted")

    monkeypatch.setattr(choices, "find_named", lambda _: refuse(AlphabetError))
    assert mistake("tasks", capsys=capsys) == "alphabet-study: planted\n"
    monkeypatch.setattr(choices, "find_named", lambda _: refuse(ValueError))
    monkeypatch.setattr(sys, "argv", ["alphabet-study", "tasks"])
    with pytest.raises(ValueError, match="planted"):
        main()


def mistake(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command with a mistake in it prints to stderr; it must end with exit code 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["alphabet-study", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--task", "GunPiont"], "'GunPiont' is neither a task nor a suite; did you mean GunPoint"),
        (["run", "--family", "rnn"], "--family must be all or one of alphabet, cnn1d, "),
        (["run", "--settings", "large"], "--settings must be one of paper, small; got 'large'"),
        (["run", "--engine", "slurm", "--task", TASK], "engine must be local or ray; got 'slurm'"),
        (["run", "--workers", "0", "--task", TASK], "workers must be at least 1; got 0"),
        (["run", "--data", "nowhere"], "--data nowhere: there is no such folder"),
        (["run", "--task", "uea"], "tasks cannot be run: "),
        (["status"], "study-runs/small.sqlite: there is no store"),
        (["export", "fits.csv", "--store", "none.sqlite"], "none.sqlite: there is no store"),
        (["import", "fits.csv"], "fits.json is missing"),
        (["table", "--store", "none.sqlite"], "none.sqlite: there is no store"),
        (["table", "--store", "."], ". is a folder; a store is a file"),
        (["fetch", TASK], "no folder to download to: name one by --data or ALPHABET_DATA"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = mistake(*arguments, capsys=capsys)
    assert said.startswith("alphabet-study: ")
    assert message in said
    assert said.count("\n") == 1


def test_a_store_of_other_settings_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    run_small(Path("store.sqlite"), small_plan(TASK, families=("gru",), epochs=31), InlineEngine(HashedFit()))
    said = mistake("run", "--task", TASK, "--store", "store.sqlite", capsys=capsys)
    assert "other settings (epochs 31 there, 30 here)" in said


def test_data_that_differ_from_those_of_earlier_sessions_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    # Whoever made this store had other files of that task: its digests are made up.
    run_small(Path("store.sqlite"), small_plan(TASK, families=("gru",)), InlineEngine(HashedFit()))
    said = mistake("run", "--task", TASK, "--store", "store.sqlite", capsys=capsys)
    assert f"{TASK}: the files of TRAIN have changed since this campaign began" in said


def test_tasks_and_help_are_shown() -> None:
    tasks = run("tasks", TASK)
    assert tasks.exit_code == 0
    assert TASK in tasks.stdout
    shown = run("--help").stdout
    assert all(name in shown for name in ("tasks", "fetch", "run", "status", "export", "import", "table"))


def test_the_package_can_be_run_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "alphabet_study", "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert "alphabet_study" in result.stdout


def test_without_a_data_root_the_embedded_tasks_are_the_available_ones() -> None:
    embedded = choose_tasks([EMBEDDED], None)
    assert TASK in [task.name for task in embedded]
    assert choose_tasks([AVAILABLE], None) == embedded
    assert choose_tasks([ALL], None, available=True) == embedded
    assert choose_tasks([TASK, EMBEDDED, TASK], None)[0].name == TASK
    assert len(choose_tasks([TASK, EMBEDDED, TASK], None)) == len(embedded)


def test_a_task_whose_files_are_not_the_declared_ones_is_refused(tmp_path: Path) -> None:
    task = TASKS[TASK]
    folder = embedded_folder(task)
    assert folder is not None
    for file in task.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes((folder / file.name).read_bytes())
    assert choose_tasks([TASK], tmp_path) == [task]
    with (tmp_path / task.files_test[0].path).open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(StudyError, match=rf"1 of 1 tasks cannot be run: {TASK}\. {TASK}: hash differs: .*--available"):
        choose_tasks([TASK], tmp_path)


def test_all_families_are_the_papers_ten_and_each_is_taken_once() -> None:
    assert len(choose_families([ALL])) == 10
    assert choose_families(["gru", ALL])[0] == "gru"
    assert len(choose_families(["gru", ALL])) == 10
