import importlib.util
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from alphabet_study.campaign.engines import failed_record, make_engine
from alphabet_study.campaign.engines.local import LocalEngine, available_cores
from alphabet_study.campaign.engines.worker import describe
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, FitKey, Job, Record
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import (
    ERROR,
    EXIT,
    MEMORY,
    SIGNAL,
    HashedFit,
    InlineEngine,
    ThreadsFit,
    UnloadableFit,
    deterministic_export,
    filled_store,
    run_small,
    small_plan,
)

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra ray)")
WAYS = {
    "A/gru/screen/0/7": (SIGNAL, "the process was killed by SIGKILL (out of memory?)"),
    "A/gru/screen/1/7": (EXIT, "the process exited with code 17"),
    "A/gru/screen/2/7": (MEMORY, "MemoryError: cannot allocate 7 PiB"),
    "B/gru/screen/3/7": (ERROR, "RuntimeError: a planted error"),
}


def test_worker_processes_give_the_records_that_one_process_gives(tmp_path: Path) -> None:
    plan = small_plan("A", "B")
    run_small(tmp_path / "inline.sqlite", plan, InlineEngine(HashedFit()))
    run_small(tmp_path / "local.sqlite", plan, LocalEngine(HashedFit(), 2))
    assert deterministic_export(tmp_path / "local.sqlite") == deterministic_export(tmp_path / "inline.sqlite")
    with Store.read(tmp_path / "local.sqlite") as store:
        machines = Counter(record.machine for record in store.records())
    assert 1 <= len(machines) <= 2  # one, where it is done before the other has started
    assert f"process {os.getpid()}" not in machines


@pytest.mark.slow
def test_a_fit_that_kills_its_process_or_raises_is_recorded_with_its_reason_and_the_campaign_goes_on(
    tmp_path: Path,
) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B")
    crashing = tuple((key, way) for key, (way, _) in WAYS.items())
    summary = run_small(path, plan, LocalEngine(HashedFit(crashing=crashing), 2))
    with Store.read(path) as store:
        failed = {str(r.job.key): r.outcome.reason or "" for r in store.records() if r.outcome.status == FAILED}
    assert set(failed) == set(WAYS)
    assert all(failed[key].startswith(reason) for key, (_, reason) in WAYS.items()), failed
    assert sorted(map(str, summary.blocked)) == ["A/gru", "B/gru"]
    assert summary.left == 2 * 4
    summary = run_small(path, plan, LocalEngine(HashedFit(), 2), retry_failed=True)
    assert summary.left == 0
    run_small(tmp_path / "undisturbed.sqlite", plan, InlineEngine(HashedFit()))
    assert deterministic_export(path) == deterministic_export(tmp_path / "undisturbed.sqlite")


def test_a_worker_that_is_killed_from_outside_costs_its_fit_only(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))

    class Killed(LocalEngine):
        def submit(self, slot: int, job: Job, task: Task) -> None:
            super().submit(slot, job, task)
            if job.key.slot == 1 and job.key.stage == "screen":
                self._workers[slot].process.send_signal(signal.SIGKILL)

    summary = run_small(tmp_path / "store.sqlite", plan, Killed(HashedFit(seconds=0.05), 1))
    assert summary.statuses[FAILED] == 1
    assert summary.statuses.total() == 4


def test_a_worker_that_dies_between_two_fits_is_replaced_without_any_failure(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))

    class Killed(LocalEngine):
        killed = False

        def wait(self, seconds: float) -> list[Record]:
            records = super().wait(seconds)
            if records and not self.killed:
                self.killed = True
                self._workers[0].process.kill()
                self._workers[0].process.wait()
                assert super().wait(5.0) == []  # its end is noticed before the slot is used again
            return records

    summary = run_small(tmp_path / "store.sqlite", plan, Killed(HashedFit(), 1))
    assert summary.statuses[FAILED] == 0
    assert summary.left == 0


def test_workers_are_kept_to_one_thread_by_their_environment(tmp_path: Path) -> None:
    run_small(tmp_path / "store.sqlite", small_plan("A", families=("gru",)), LocalEngine(ThreadsFit(), 1))
    with Store.read(tmp_path / "store.sqlite") as store:
        assert {record.outcome.path for record in store.records()} == {"1 1 1, torch not imported"}


@pytest.mark.slow
def test_workers_keep_torch_to_one_thread(tmp_path: Path) -> None:
    run_small(
        tmp_path / "store.sqlite", small_plan("A", families=("gru",)), LocalEngine(ThreadsFit(with_torch=True), 1)
    )
    with Store.read(tmp_path / "store.sqlite") as store:
        assert {record.outcome.path for record in store.records()} == {"1 1 1, torch 1"}


def test_workers_that_cannot_start_end_the_campaign_and_fail_no_fit(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"3 workers in a row ended before .*exited with code 5.*no fit was recorded"):
        run_small(tmp_path / "store.sqlite", small_plan("A"), LocalEngine(UnloadableFit(), 1))
    with Store.read(tmp_path / "store.sqlite") as store:
        assert store.records() == []


def test_closing_an_engine_ends_its_processes_in_the_midst_of_a_fit() -> None:
    plan = small_plan("A")
    with LocalEngine(HashedFit(seconds=600.0), 2) as engine:
        while len(engine.free()) < 2:
            engine.wait(1.0)
        for slot, key in enumerate(plan.keys[plan.cells[0]][:2]):
            engine.submit(slot, Job(key, "candidate"), plan.tasks[0])
        processes = [worker.process for worker in engine._workers]
        began = time.monotonic()
    assert all(process.poll() is not None for process in processes)
    assert time.monotonic() - began < 300.0  # the fits themselves would take twice that


@pytest.mark.parametrize("separator", ["\r", "\n", "\r\n", "\x0b", "\x1c", "\x85", "\u2028", "\t"])
def test_reasons_of_failed_fits_are_one_line(separator: str) -> None:
    job = Job(FitKey("A", "gru", "screen", 0, 7), "candidate")
    assert describe(RuntimeError(f"one{separator}two{separator}")) == "RuntimeError: one two"
    assert failed_record(job, f"{separator}one{separator}two", 0.0).outcome.reason == "one two"


def test_reasons_with_bytes_that_are_no_text_can_be_kept(tmp_path: Path) -> None:
    error = RuntimeError(os.fsdecode(b"no file \xff"))
    assert describe(error) == r"RuntimeError: no file \udcff"
    record = failed_record(Job(FitKey("A", "gru", "screen", 0, 7), "candidate"), str(error), 0.0)
    with filled_store(tmp_path / "store.sqlite", small_plan("A")) as store:
        assert store.add(record)
        assert store.records() == [record]


def test_engines_and_numbers_of_workers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(StudyError, match="engine must be local or ray; got 'slurm'"):
        make_engine("slurm", HashedFit())
    with pytest.raises(StudyError, match="workers must be at least 1; got 0"):
        make_engine("local", HashedFit(), 0)
    assert available_cores() >= 1


def test_without_ray_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StudyError, match=r"pip install 'alphabet-study\[ray\]', or use --engine local"):
        make_engine("ray", HashedFit(), 1)


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_ray_gives_the_local_records_with_a_worker_killed_in_between(tmp_path: Path) -> None:
    plan = small_plan("A", "B")
    run_small(tmp_path / "local.sqlite", plan, LocalEngine(HashedFit(), 2))
    once = tmp_path / "once"
    once.mkdir()
    crashing = (("A/gru/screen/2/7", SIGNAL), ("B/alphabet/confirm/1/11", SIGNAL))
    summary = run_small(tmp_path / "ray.sqlite", plan, make_engine("ray", HashedFit(crashing=crashing, once=once), 2))
    assert len(list(once.iterdir())) == 2
    assert summary.statuses[FAILED] == 0
    assert deterministic_export(tmp_path / "ray.sqlite") == deterministic_export(tmp_path / "local.sqlite")


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_ray_records_what_raises_and_what_kills_every_worker_as_failed(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    crashing = (("A/gru/screen/0/7", SIGNAL), ("A/gru/screen/1/7", ERROR))
    run_small(tmp_path / "store.sqlite", plan, make_engine("ray", HashedFit(crashing=crashing), 1))
    with Store.read(tmp_path / "store.sqlite") as store:
        failed = {str(r.job.key): r.outcome.reason or "" for r in store.records() if r.outcome.status == FAILED}
    assert failed["A/gru/screen/0/7"].startswith("its actor died 3 times: ActorDiedError")
    assert failed["A/gru/screen/1/7"].startswith("RuntimeError: a planted error")
    assert len(failed) == 2
