from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alphabet_study.campaign.plan import Agenda, Plan, complete_outcomes
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DIVERGED, DONE, FAILED, FINAL, Cell, FitKey, Job, Outcome, Record
from alphabet_study.protocol.settings import PAPER, SMALL
from alphabet_study.registry import TASKS
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import (
    ERROR,
    HashedFit,
    InlineEngine,
    deterministic_export,
    failing_fit,
    filled_store,
    make_task,
    run_small,
    small_plan,
)

TEN = ("alphabet", "cnn1d", "tcn", "transformer", "mamba", "s4d", "s5", "lru", "gru", "lstm")


def test_the_whole_study_is_28700_fits_with_distinct_keys() -> None:
    plan = Plan(tuple(TASKS.values()), TEN, PAPER)
    assert len(plan.cells) == 820
    assert plan.size == 28_700
    assert len({key for keys in plan.keys.values() for key in keys}) == 28_700


def test_a_plan_without_tasks_or_with_one_twice_is_refused() -> None:
    with pytest.raises(StudyError, match="names no task"):
        Plan((), ("gru",), SMALL)
    with pytest.raises(StudyError, match="a task twice: A, A"):
        small_plan("A", "A")
    with pytest.raises(StudyError, match="a family twice: gru, gru"):
        small_plan("A", families=("gru", "gru"))


def test_the_largest_task_comes_first_and_a_worker_stays_with_its_task() -> None:
    tasks = (make_task("small", length=1000), make_task("large", length=9000), make_task("middle", length=5000))
    plan = Plan(tasks, ("gru",), SMALL)
    assert [cell.task for cell in plan.cells] == ["large", "middle", "small"]
    agenda = Agenda(plan, {})
    first = agenda.next(None, set())
    second = agenda.next(None, {"large"})
    third = agenda.next("middle", {"large"})
    assert first is not None
    assert second is not None
    assert third is not None
    assert [job.key.task for job in (first, second, third)] == ["large", "middle", "middle"]
    joined = agenda.next("none of them", {"large", "middle", "small"})
    assert joined is not None
    assert joined.key.task == "large"


def test_two_slots_are_busy_as_long_as_two_fits_can_run(tmp_path: Path) -> None:
    plan = small_plan("A", "B", "C")
    busy: list[int] = []

    class Watched(InlineEngine):
        def wait(self, seconds: float) -> list[Record]:
            busy.append(len(self.running()))
            return super().wait(seconds)

    run_small(tmp_path / "store.sqlite", plan, Watched(HashedFit(diverging=0), slots=2))
    assert len(busy) == plan.size
    # A fit is alone only at the end, where each of the last cell's three stages waits for the one before.
    assert busy.count(1) <= 3
    assert busy[: plan.size - 10].count(1) == 0


def test_every_fit_runs_once_and_the_campaign_is_complete(tmp_path: Path) -> None:
    plan = small_plan("A", "B")
    engine = InlineEngine(HashedFit(), slots=2)
    summary = run_small(tmp_path / "store.sqlite", plan, engine)
    keys = [job.key for _, job in engine.submitted]
    assert sorted(keys) == sorted(key for keys in plan.keys.values() for key in keys)
    assert summary.left == 0
    assert not summary.blocked
    assert not summary.interrupted
    with Store.read(tmp_path / "store.sqlite") as store:
        outcomes = complete_outcomes(store, plan.cells, plan.task_of)
    assert len(outcomes) == plan.size


def test_the_same_call_again_has_nothing_left_to_do(tmp_path: Path) -> None:
    plan = small_plan("A")
    run_small(tmp_path / "store.sqlite", plan, InlineEngine(HashedFit()))
    before = deterministic_export(tmp_path / "store.sqlite")
    again = InlineEngine(HashedFit())
    summary = run_small(tmp_path / "store.sqlite", plan, again)
    assert again.submitted == []
    assert summary.statuses.total() == plan.size
    assert deterministic_export(tmp_path / "store.sqlite") == before


def test_a_larger_plan_goes_on_in_the_same_store(tmp_path: Path) -> None:
    run_small(tmp_path / "store.sqlite", small_plan("A", families=("gru",)), InlineEngine(HashedFit()))
    engine = InlineEngine(HashedFit())
    run_small(tmp_path / "store.sqlite", small_plan("A", "B"), engine)
    assert {str(job.key.cell) for _, job in engine.submitted} == {"A/alphabet", "B/alphabet", "B/gru"}


def test_test_is_opened_on_record_before_the_first_final_of_a_cell_starts(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A")

    class Watched(InlineEngine):
        def submit(self, slot: int, job: Job, task: Task) -> None:
            with Store.read(path) as reader:
                opening = reader.openings().get(job.key.cell)
            if job.key.stage == FINAL:
                assert opening is not None
                assert opening.frozen == job.frozen
            else:
                assert opening is None
            super().submit(slot, job, task)

    run_small(path, plan, Watched(HashedFit()))
    with Store.read(path) as store:
        assert set(store.openings()) == set(plan.cells)


def test_a_selection_that_would_open_test_differently_is_refused_before_any_final(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", families=("gru",))
    cell = plan.cells[0]
    engine = InlineEngine(HashedFit())
    with filled_store(path, plan) as store:
        agenda = Agenda(plan, {})
        while (job := agenda.next(None, set())) is not None and job.key.stage != FINAL:
            record = HashedFit()(job, plan.tasks[0])
            agenda.finish(job, record.outcome)
        store.open_test(replace(agenda.frozen(cell), candidate="another"))
    with pytest.raises(StudyError, match=r"A/gru: TEST was opened .* under another .* refused"):
        run_small(path, plan, engine)
    assert all(job.key.stage != FINAL for _, job in engine.submitted)


def test_a_failed_fit_blocks_its_cell_alone_and_retrying_completes_it(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B")
    bad = "A/gru/screen/1/7"
    failing = InlineEngine(partial(failing_fit, bad=bad))
    summary = run_small(path, plan, failing)
    assert summary.statuses[FAILED] == 1
    assert list(summary.blocked) == [Cell("A", "gru")]
    assert "1 failed fit(s)" in summary.blocked[Cell("A", "gru")]
    assert summary.left == 4  # the confirmation and the finals of that cell
    assert run_small(path, plan, InlineEngine(HashedFit())).left == 4  # not retried unless asked to
    retried = InlineEngine(HashedFit())
    summary = run_small(path, plan, retried, retry_failed=True)
    assert str(retried.submitted[0][1].key) == bad
    assert summary.left == 0
    assert not summary.blocked
    undisturbed = tmp_path / "undisturbed.sqlite"
    run_small(undisturbed, plan, InlineEngine(HashedFit()))
    assert deterministic_export(path) == deterministic_export(undisturbed)


def test_a_cell_in_which_everything_diverges_is_named_and_the_others_are_completed(tmp_path: Path) -> None:
    plan = small_plan("A", "B", families=("gru",))
    summary = run_small(tmp_path / "store.sqlite", plan, InlineEngine(diverging_on_a))
    assert list(summary.blocked) == [Cell("A", "gru")]
    assert "every confirmed candidate diverged" in summary.blocked[Cell("A", "gru")]
    assert summary.left == len(SMALL.final_seeds)


def diverging_on_a(job: Job, task: Task) -> Record:
    record = HashedFit(diverging=0)(job, task)
    return replace(record, outcome=Outcome(DIVERGED, "planted")) if task.name == "A" else record


def test_a_clock_that_jumps_back_changes_nothing(tmp_path: Path) -> None:
    plan = small_plan("A", "B")
    early, late = HashedFit(clock="1999-12-31T23:59:59+00:00"), HashedFit(clock="2038-01-19T03:14:07+00:00")
    steady, jumping = tmp_path / "steady.sqlite", tmp_path / "jumping.sqlite"
    run_small(steady, plan, InlineEngine(early))
    clocks = iter([late, early] * plan.size)
    run_small(jumping, plan, InlineEngine(lambda job, task: next(clocks)(job, task)))
    assert deterministic_export(jumping) == deterministic_export(steady)


def test_records_that_the_plan_does_not_know_leave_the_rest_to_be_run() -> None:
    plan = small_plan("A", families=("gru",))
    strange = [FitKey("A", "gru", "confirm", slot, 11) for slot in range(50, 70)]
    agenda = Agenda(plan, {key: (Job(key, "x"), Outcome(DONE, score=0.5)) for key in strange})
    assert agenda.left == {Cell("A", "gru"): 8}


def test_planned_cells_are_on_record_before_the_first_fit(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B")
    with pytest.raises(RuntimeError, match="planted"):
        run_small(path, plan, InlineEngine(HashedFit(crashing=((f"{plan.cells[0]}/screen/0/7", ERROR),))))
    with Store.read(path) as store:
        assert store.records() == []
        assert store.planned() == set(plan.cells)


@pytest.mark.slow
def test_a_real_campaign_on_a_bundled_task_is_complete_and_repeats_to_the_last_bit(tmp_path: Path) -> None:
    from alphabet_study.campaign.engines.local import LocalEngine
    from alphabet_study.protocol.fitting import run_job

    settings = replace(SMALL, epochs=2, shapes=(0,), kept=1, final_seeds=(23,))
    plan = Plan((TASKS["ItalyPowerDemand"],), ("alphabet", "gru"), settings)
    fit = partial(run_job, settings=settings, root=None)
    for name in ("first", "second"):
        summary = run_small(tmp_path / f"{name}.sqlite", plan, LocalEngine(fit, 2))
        assert summary.statuses == {DONE: plan.size}
    assert deterministic_export(tmp_path / "first.sqlite") == deterministic_export(tmp_path / "second.sqlite")


def test_a_fit_that_raises_in_the_callers_process_is_not_swallowed(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    fit = HashedFit(crashing=(("A/gru/screen/2/7", ERROR),))
    with pytest.raises(RuntimeError, match="planted"):
        run_small(tmp_path / "store.sqlite", plan, InlineEngine(fit))
    with Store.read(tmp_path / "store.sqlite") as store:
        assert len(store.records()) == 2
