"""Data that change while a campaign runs: no record is computed from them, and the reason says what to do."""

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from alphabet_study.campaign import engines, watched_data
from alphabet_study.campaign.engines import failed_record
from alphabet_study.campaign.engines.local import LocalEngine
from alphabet_study.campaign.engines.worker import describe
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.watched_data import COARSEST_STEP, TEST, TRAIN, VerifiedFit, WatchedData
from alphabet_study.cli import app
from alphabet_study.data_root import data_digest, embedded_folder
from alphabet_study.errors import StudyError
from alphabet_study.protocol import fitting
from alphabet_study.protocol.records import DONE, FAILED, FINAL, SCREEN, FitKey, Job, Record
from alphabet_study.protocol.sealing import load_train
from alphabet_study.registry import TASKS
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import HashedFit, InlineEngine
from typer.testing import CliRunner

TASK = TASKS["ItalyPowerDemand"]
SCREENED = Job(FitKey(TASK.name, "gru", SCREEN, 0, 7), "gru/032/01x16/A")
TRAINED = Job(FitKey(TASK.name, "gru", FINAL, 0, 23), "gru/032/01x16/A", 3, "frozen")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with the task's bundled files."""
    source = embedded_folder(TASK)
    assert source is not None
    for file in TASK.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes((source / file.name).read_bytes())
    return tmp_path


def place(root: Path, part: str) -> Path:
    return root / (TASK.files_train if part == TRAIN else TASK.files_test)[0].path


def flip(path: Path) -> None:
    """Change one digit of the last value; the file keeps its size and even its time of modification."""
    before, content = path.stat(), bytearray(path.read_bytes())
    position = len(content.rstrip()) - len(b"0:1")
    content[position] = ord("1") if content[position] != ord("1") else ord("2")
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts whose bytes are hashed, one entry each time; in this test all files were written long ago."""
    parts: list[str] = []

    def note(task: Task, root: Path | None, part: str) -> str:
        parts.append(part)
        return data_digest(task, root, part)

    monkeypatch.setattr(watched_data, "data_digest", note)
    now = time.time_ns
    monkeypatch.setattr(watched_data.time, "time_ns", lambda: now() + 2 * COARSEST_STEP)
    return parts


def watch(root: Path) -> WatchedData:
    watched = WatchedData(root)
    assert watched.record(TASK) == {part: data_digest(TASK, root, part) for part in (TRAIN, TEST)}
    return watched


def test_files_that_stay_as_they_are_are_hashed_once_and_not_again_by_a_workers_copy(
    root: Path, hashed: list[str]
) -> None:
    watched = watch(root)
    assert hashed == [TRAIN, TEST]
    copy = pickle.loads(pickle.dumps(VerifiedFit(HashedFit(), watched)))
    for fit in (VerifiedFit(HashedFit(), watched), copy):
        for job in (SCREENED, TRAINED):
            assert fit(job, TASK).outcome.status == DONE
    assert hashed == [TRAIN, TEST]


def test_files_that_were_written_a_moment_ago_are_hashed_at_every_look(
    root: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second write within one step of the file system's clock would leave size and times as they are.
    monkeypatch.setattr(watched_data.time, "time_ns", lambda: place(root, TRAIN).stat().st_mtime_ns)
    VerifiedFit(HashedFit(), watch(root))(SCREENED, TASK)
    assert hashed == [TRAIN, TEST, TRAIN, TRAIN]


@pytest.mark.parametrize("change", [flip, Path.touch, lambda path: path.write_bytes(path.read_bytes()[:-5])])
def test_files_are_hashed_again_when_what_the_file_system_says_of_them_changes(
    root: Path, hashed: list[str], change: Callable[[Path], object]
) -> None:
    watched = watch(root)
    change(place(root, TRAIN))
    recorded = data_digest(TASK, root, TRAIN) == data_digest(TASK, None, TRAIN)
    for attempt in range(2):
        if recorded:
            watched.verify(TASK, TRAIN)
        else:
            with pytest.raises(StudyError, match="have changed"):
                watched.verify(TASK, TRAIN)
        assert hashed == [TRAIN, TEST, TRAIN] + [TRAIN] * (not recorded) * attempt


def test_a_fit_on_changed_files_fails_with_the_file_what_changed_and_what_to_do(root: Path) -> None:
    watched = watch(root)
    path = place(root, TRAIN)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\n" * 1000)

    def refuse(job: Job, task: Task) -> Record:
        raise AssertionError("it must not run")

    with pytest.raises(StudyError) as caught:
        VerifiedFit(refuse, watched)(SCREENED, TASK)
    said = str(caught.value)
    assert said.startswith(f"{TASK.name}: the files of TRAIN have changed since this campaign recorded their digest: ")
    assert f"{path} had {size:,} bytes of 20" in said
    assert f", has {size + 1000:,} bytes of 20" in said
    assert "restore the files and run the same command with --retry-failed, or begin with the new ones in" in said


def test_a_file_that_is_gone_is_named_with_how_to_get_it(root: Path) -> None:
    watched = watch(root)
    place(root, TEST).unlink()
    watched.verify(TASK, TRAIN)
    with pytest.raises(StudyError, match=rf"lacks {TASK.files_test[0].name}; `alphabet-study fetch {TASK.name}`"):
        watched.verify(TASK, TEST)


def test_selection_does_not_look_at_test_and_a_final_does(root: Path) -> None:
    fit = VerifiedFit(HashedFit(), watch(root))
    place(root, TEST).unlink()
    os.mkfifo(place(root, TEST))  # a pipe without a writer: whoever opened it would wait for ever
    assert fit(SCREENED, TASK).outcome.status == DONE
    place(root, TEST).unlink()
    place(root, TEST).write_bytes(b"other data")
    with pytest.raises(StudyError, match=rf"the files of TEST have changed .*{TASK.files_test[0].name} had .* bytes"):
        fit(TRAINED, TASK)


def test_a_fit_during_which_files_change_gives_no_record(root: Path) -> None:
    def change(job: Job, task: Task) -> Record:
        flip(place(root, TRAIN))
        load_train(task, root)
        return HashedFit()(job, task)

    with pytest.raises(StudyError, match="the files of TRAIN have changed since this campaign recorded their digest"):
        VerifiedFit(change, watch(root))(SCREENED, TASK)


def test_a_fit_that_fails_on_a_half_written_file_says_that_the_file_changed(root: Path) -> None:
    def cut(job: Job, task: Task) -> Record:
        path = place(root, TRAIN)
        path.write_bytes(path.read_bytes()[:3000])
        load_train(task, root)
        raise AssertionError("half a file cannot be read")

    with pytest.raises(StudyError, match=r"TRAIN have changed .* has 3,000 bytes"):
        VerifiedFit(cut, watch(root))(SCREENED, TASK)


def test_files_that_change_and_change_back_during_a_fit_give_no_record(root: Path) -> None:
    def change_and_restore(job: Job, task: Task) -> Record:
        path = place(root, TRAIN)
        content = path.read_bytes()
        path.write_bytes(content[:3000])
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))
        return HashedFit()(job, task)

    with pytest.raises(StudyError, match=r"were written while a fit may have read them: .* as recorded now"):
        VerifiedFit(change_and_restore, watch(root))(SCREENED, TASK)


def test_links_and_permissions_may_change_during_a_fit(root: Path) -> None:
    def link(job: Job, task: Task) -> Record:
        place(root, TRAIN).with_name("backup").hardlink_to(place(root, TRAIN))
        place(root, TRAIN).chmod(0o400)
        return HashedFit()(job, task)

    assert VerifiedFit(link, watch(root))(SCREENED, TASK).outcome.status == DONE


def test_files_that_are_written_while_they_are_hashed_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hash_and_write(task: Task, root: Path, part: str) -> str:
        place(root, part).write_bytes(b"half")
        return "made up"

    monkeypatch.setattr(watched_data, "data_digest", hash_and_write)
    with pytest.raises(StudyError, match=r"the files of TRAIN are being written: .* has 4 bytes .* until they are co"):
        WatchedData(root).record(TASK)


@pytest.mark.slow
def test_a_worker_process_fails_a_fit_on_changed_files_and_goes_on_when_they_are_restored(root: Path) -> None:
    content = place(root, TRAIN).read_bytes()
    with LocalEngine(VerifiedFit(HashedFit(), watch(root)), 1) as engine:

        def compute(job: Job) -> Record:
            while not engine.free():
                assert engine.wait(0.25) == []
            engine.submit(0, job, TASK)
            while not (ended := engine.wait(0.25)):
                pass
            return ended[0]

        assert compute(SCREENED).outcome.status == DONE
        flip(place(root, TRAIN))
        failed = compute(SCREENED)
        place(root, TRAIN).write_bytes(content)
        again = compute(SCREENED)
    assert failed.outcome.status == FAILED
    assert failed.outcome.reason is not None
    assert f"StudyError: {TASK.name}: the files of TRAIN have changed" in failed.outcome.reason
    assert again.outcome.status == DONE


class ForgivingEngine(InlineEngine):
    """Computes fits in this process; one that raises is recorded as failed, as by an engine with workers."""

    def wait(self, seconds: float) -> list[Record]:
        (job,) = self.running().values()
        try:
            return super().wait(seconds)
        except StudyError as error:
            return [failed_record(job, describe(error), 0.0)]


def test_a_campaign_records_nothing_from_files_that_change_meanwhile_and_completes_when_they_are_restored(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, read = place(root, TRAIN).read_bytes(), []

    def run_job(job: Job, task: Task, settings: object, root: Path | None) -> Record:
        assert root is not None
        read.append((job.key.slot, load_train(task, root)))
        if len(read) == 2:
            flip(place(root, TRAIN))
        return HashedFit(diverging=0)(job, task)

    def run(*options: str) -> tuple[int, list[str]]:
        command = [
            "run",
            "--task",
            TASK.name,
            "--family",
            "gru",
            "--data",
            str(root),
            "--store",
            str(root / "s.sqlite"),
        ]
        found = CliRunner().invoke(app, [*command, *options], catch_exceptions=False)
        with Store.read(root / "s.sqlite") as store:
            return found.exit_code, [record.outcome.status for record in store.records()]

    monkeypatch.setattr(fitting, "run_job", run_job)
    monkeypatch.setattr(engines, "make_engine", lambda name, fit, workers: ForgivingEngine(fit))
    assert run() == (1, [DONE, FAILED, FAILED, FAILED])
    assert [slot for slot, _ in read] == [0, 1]
    place(root, TRAIN).write_bytes(content)
    assert run("--retry-failed") == (0, [DONE] * 8)
