import re
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from alphabet_study.campaign.estimate import Estimate
from alphabet_study.campaign.plan import Agenda, Plan, complete_outcomes, find_faults
from alphabet_study.campaign.progress import Progress, describe_duration
from alphabet_study.campaign.runner import describe_changes, run_campaign
from alphabet_study.campaign.status import failure_lines, status_table
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
    filled_store,
    make_task,
    run_small,
    small_plan,
)
from rich.console import Console

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


def failing_fit(job: Job, task: Task, *, bad: str) -> Record:
    record = HashedFit()(job, task)
    return replace(record, outcome=Outcome(FAILED, "planted")) if str(job.key) == bad else record


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


# Aggregation.


def test_aggregation_refuses_missing_fits_and_names_ten_of_them(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B")
    run_small(path, small_plan("A"), InlineEngine(HashedFit()))
    with Store.read(path) as store, pytest.raises(StudyError) as caught:
        complete_outcomes(store, plan.cells)
    message = str(caught.value)
    assert "16 of 32 fits have no record" in message
    assert len(re.findall(r"B/\w+/\w+/\d+/\d+", message)) == 10
    assert "A/" not in message
    with Store.read(path) as store:
        assert len(complete_outcomes(store, small_plan("A").cells)) == 16


def test_aggregation_refuses_failed_fits(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", families=("gru",))
    last = FitKey("A", "gru", FINAL, 0, SMALL.final_seeds[-1])
    run_small(path, plan, InlineEngine(partial(failing_fit, bad=str(last))))
    with Store.read(path) as store, pytest.raises(StudyError, match=rf"1 of 8 fits failed: {last}\."):
        complete_outcomes(store, plan.cells)


def test_aggregation_refuses_finals_that_their_selection_did_not_freeze(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", families=("gru",))
    run_small(path, plan, InlineEngine(HashedFit(diverging=0)))
    with filled_store(path, plan) as store:
        complete_outcomes(store, plan.cells, plan.task_of)
        store._connection.execute("UPDATE fits SET score = 2.0 WHERE stage = 'confirm'")
        complete_outcomes(store, plan.cells)
        with pytest.raises(StudyError, match=r"A/gru/final/0/23: trained under .* but the selection of A/gru gives"):
            complete_outcomes(store, plan.cells, plan.task_of)


@pytest.mark.parametrize("change", ["candidate = 'another'", "train_epochs = train_epochs + 1"])
def test_a_final_that_differs_from_its_selection_is_found_though_its_hash_agrees(tmp_path: Path, change: str) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B", families=("gru",))
    run_small(path, plan, InlineEngine(HashedFit(diverging=0)))
    with filled_store(path, plan) as store:
        assert find_faults(store, plan.cells, plan.task_of) == {}
        store._connection.execute(f"UPDATE fits SET {change} WHERE stage = 'final' AND seed = 31 AND task = 'A'")
        with pytest.raises(StudyError, match=r"A/gru/final/0/31: trained under .* but the selection of A/gru gives"):
            complete_outcomes(store, plan.cells, plan.task_of)
        faults = find_faults(store, plan.cells, plan.task_of)
    assert list(faults) == [Cell("A", "gru")]
    assert "A/gru/final/0/31: trained under" in faults[Cell("A", "gru")]


def test_finals_without_their_selection_are_a_fault_of_their_cell(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B", families=("gru",))
    run_small(path, plan, InlineEngine(HashedFit(diverging=0)))
    with filled_store(path, plan) as store:
        store._connection.execute("DELETE FROM fits WHERE stage = 'confirm' AND task = 'B'")
        faults = find_faults(store, plan.cells, plan.task_of)
    assert list(faults) == [Cell("B", "gru")]
    assert "2 of 6 fits of the selection are missing: B/gru/confirm/0/11, " in faults[Cell("B", "gru")]


def test_a_final_that_diverged_is_named_with_what_can_still_be_done(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A", "B", families=("gru",))
    summary = run_small(path, plan, InlineEngine(diverging_final))
    assert summary.left == 0
    assert list(summary.blocked) == [Cell("A", "gru")]
    expected = r"A/gru/final/0/23\. Running again gives the same; `alphabet-study table --partial` shows the rest"
    assert re.search(rf"1 final fit\(s\) diverged: {expected}", summary.blocked[Cell("A", "gru")])
    with (
        Store.read(path) as store,
        pytest.raises(StudyError, match=f"1 of 16 fits are finals that diverged: {expected}"),
    ):
        complete_outcomes(store, plan.cells, plan.task_of)


def diverging_final(job: Job, task: Task) -> Record:
    record = HashedFit(diverging=0)(job, task)
    diverged = replace(record, outcome=Outcome(DIVERGED, "planted"))
    return diverged if str(job.key) == "A/gru/final/0/23" else record


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


# What a user sees.


def test_changes_of_code_and_libraries_are_described_and_unknown_ones_are_not() -> None:
    now = {"sources": "new", "versions": {"torch": "2", "numpy": "1"}}
    assert describe_changes(now, now) == ""
    assert describe_changes({}, now) == ""
    old = {"sources": "old", "versions": {"torch": "1", "numpy": "1"}}
    assert describe_changes(old, now) == "sources old then, new now, torch 1 then, 2 now"


def make_progress(*, terminal: bool = False, interval: float = 0.0) -> tuple[Progress, StringIO]:
    out = StringIO()
    return Progress(Console(file=out, force_terminal=terminal, width=200), interval), out


def test_progress_says_what_is_done_failed_left_and_running(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    progress, out = make_progress()
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        engine = InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7"))
        run_campaign(plan, store, engine, progress)
    text = out.getvalue()
    assert "0 of 8 fits done, 0 failed, 8 left; now A/gru/screen/0/7\n" in text
    assert re.search(
        r"1 of 8 fits done, 0 failed, 7 left; [\d.]+ a minute; about \d+ s to go; now A/gru/screen/1/7", text
    )
    assert "failed: A/gru/screen/3/7: planted\n" in text


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(tmp_path: Path) -> None:
    plan = small_plan("A")
    progress, out = make_progress(interval=3600.0)
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        run_campaign(plan, store, InlineEngine(HashedFit()), progress)
    assert out.getvalue() == ""


def test_progress_on_a_terminal_leaves_only_what_was_said(tmp_path: Path) -> None:
    plan = small_plan("A", families=("gru",))
    progress, out = make_progress(terminal=True)
    with filled_store(tmp_path / "store.sqlite", plan) as store, progress:
        run_campaign(plan, store, InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7")), progress)
    assert "failed: A/gru/screen/3/7: planted" in out.getvalue()
    assert "fits done" in out.getvalue()


def test_time_left_comes_from_the_cell_then_the_family_then_all() -> None:
    tasks = {name: make_task(name, length=length) for name, length in (("A", 1000), ("B", 2000))}
    estimate = Estimate(tasks, {Cell("A", "gru"): [1.0, 2.0, 300.0], Cell("A", "lstm"): [6.0]})
    assert estimate.seconds_left({Cell("A", "gru"): 10}) == 20.0
    assert estimate.seconds_left({Cell("B", "gru"): 10}) == pytest.approx(40.0)
    assert estimate.seconds_left({Cell("B", "s4d"): 1}) == pytest.approx(8.0)
    estimate.add(Cell("B", "s4d"), 5.0)
    assert estimate.seconds_left({Cell("B", "s4d"): 2}) == 10.0
    assert Estimate(tasks, {}).seconds_left({Cell("A", "gru"): 10}) == 0.0


def test_durations_are_said_in_their_two_largest_units() -> None:
    said = {0.4: "0 s", 59.0: "59 s", 61.0: "1 min 01 s", 3600.0: "1 h 00 min", 90_000.0: "25 h 00 min", -5.0: "0 s"}
    assert {seconds: describe_duration(seconds) for seconds in said} == said


def test_status_shows_every_cell_and_names_failures(tmp_path: Path) -> None:
    path, plan = tmp_path / "store.sqlite", small_plan("A")
    run_small(path, plan, InlineEngine(partial(failing_fit, bad="A/gru/screen/3/7")))
    out = StringIO()
    with Store.read(path) as store:
        Console(file=out, width=200).print(status_table(store))
        assert failure_lines(store) == ["failed: A/gru/screen/3/7: planted"]
    lines = {line.split()[1]: line.split() for line in out.getvalue().splitlines()[2:]}
    assert lines["alphabet"][2:5] == ["4/4", "2/2", "2/2"]
    assert lines["gru"][2:5] == ["3/4", "0/2", "0/2"]


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
