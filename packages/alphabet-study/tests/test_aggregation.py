"""Aggregation takes complete campaigns only, and says what is missing."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alphabet_study.campaign.plan import complete_outcomes, find_faults
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DIVERGED, FINAL, Cell, FitKey, Job, Outcome, Record
from alphabet_study.protocol.settings import SMALL
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    failing_fit,
    filled_store,
    run_small,
    small_plan,
)


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
