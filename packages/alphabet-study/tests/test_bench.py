"""The benchmark's table: every family in it, its cost bounded and declared, its progress visible."""

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from alphabet_baselines import FAMILIES
from alphabet_study.protocol.records import Job, Record
from alphabet_study.protocol.settings import PAPER, Settings
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import HashedFit

SCRIPT = Path(__file__).parents[1] / "bench" / "study_overhead.py"
TEN = ("alphabet", *FAMILIES)


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("study_overhead", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ran(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, Settings]]:
    """The jobs that the table runs, each with its settings; they take no time here."""
    jobs: list[tuple[Job, Settings]] = []

    def note(job: Job, task: Task, settings: Settings, root: Path | None) -> Record:
        jobs.append((job, settings))
        record = HashedFit(diverging=0)(job, task)
        return replace(record, seconds=2.0, outcome=replace(record.outcome, epochs=settings.epochs))

    monkeypatch.setattr(bench, "run_job", note)
    return jobs


def call(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["study_overhead.py", *arguments])
    with pytest.raises(SystemExit) as caught:
        bench.main()
    return caught.value.code


def test_the_table_times_18_candidates_of_all_ten_families_for_the_same_declared_epochs(
    bench: ModuleType,
    ran: list[tuple[Job, Settings]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(bench, monkeypatch, "--only-table") == 0
    said = capsys.readouterr()
    assert f"{bench.EPOCHS} of at most 100 epochs for every candidate of every family" in said.out
    assert "up to 20 times as long" in said.out
    rows = [line.split()[:3] for line in said.out.splitlines()[4:]]
    assert rows == [[family, "36.0", "s"] for family in TEN]
    timed = [(job, settings) for job, settings in ran if settings.epochs != 1]
    assert [job.candidate for job, _ in timed] == [each.key for family in TEN for each in PAPER.candidates(family)]
    assert {(settings.epochs, settings.patience) for _, settings in timed} == {(bench.EPOCHS, bench.EPOCHS)}
    assert len(ran) - len(timed) == len(TEN)  # one untimed fit of each family, of one epoch


def test_progress_is_seen_where_output_is_no_terminal(
    bench: ModuleType,
    ran: list[tuple[Job, Settings]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(bench, monkeypatch, "--only-table", "--family", "mamba") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["mamba: 0 of 18 candidates, 0 s", "mamba: 18 of 18 candidates, 0 s"]
    monkeypatch.setattr(bench, "INTERVAL", 0.0)
    call(bench, monkeypatch, "--only-table", "--family", "mamba")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 19
    assert re.fullmatch(r"mamba: 7 of 18 candidates, \d+ s, about \d+ s to go", lines[7])


def test_progress_is_one_line_on_a_terminal(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bench.alternate("overhead", lambda: 1.0, lambda: 2.0, 3)
    said = capsys.readouterr().err
    assert "\n" not in said
    assert said.count("\r\033[Koverhead: ") == 4
    assert said.endswith("overhead: 3 of 3 rounds, 0 s\r\033[K")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "--epochs must lie in 1 ... 100; got 0"),
        (["--epochs", "101"], "--epochs must lie in 1 ... 100; got 101"),
        (["--family", "rnn"], "--family must be one of alphabet, cnn1d, "),
    ],
)
def test_a_mistake_is_said_before_anything_runs(
    bench: ModuleType, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(call(bench, monkeypatch, *arguments)).startswith(message)


@pytest.mark.slow
def test_every_family_can_be_timed(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    smallest = replace(bench.screen_settings(1), shapes=(0,), recipes=("A",), kept=1)
    bench.time_screens(TEN, smallest)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[4:]]
    assert [row[0] for row in rows] == list(TEN)
    assert all(float(row[5]) > 0 for row in rows)  # seconds of an epoch, in thousandths: a whole fit may round to 0.0


@pytest.mark.slow
def test_the_two_ratios_can_be_measured(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fewest = {"recipes": ("A",), "shapes": (0,), "kept": 1, "confirm_seeds": (11,), "final_seeds": (23,)}
    shortest = replace(bench.SETTINGS, epochs=1, **fewest)
    monkeypatch.setattr(bench, "SETTINGS", shortest)
    monkeypatch.setattr(bench, "FIT", bench.partial(bench.run_job, settings=shortest, root=None))
    assert call(bench, monkeypatch, "--no-table", "--rounds", "1") in (0, 1)  # fits this short say nothing about goals
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["overhead", "two workers"]
