import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alphabet_study.campaign.plan import complete_outcomes
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import export_csv, import_csv, read_csv
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, FINAL, Job, Outcome, Record
from alphabet_study.registry import TASKS
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    deterministic_export,
    filled_store,
    run_small,
    small_plan,
)
from alphabet_testing.study_exports import PLAN, edit, edit_description, make_export, make_store, set_in


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path)


@pytest.fixture
def exported(tmp_path: Path, store: Path) -> Path:
    return make_export(tmp_path, store)


def content(path: Path) -> tuple[object, ...]:
    with Store.read(path) as store:
        openings = {cell: opening[:3] for cell, opening in store.openings().items()}
        return store.records(), openings, store.data_digests(), store.planned()


def test_an_export_imports_into_an_empty_store_as_it_was(tmp_path: Path, store: Path, exported: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    with Store.create_or_resume(copy, PLAN.settings, {}) as opened:
        assert import_csv(opened, exported) == PLAN.size
        assert import_csv(opened, exported) == 0
        export_csv(opened, tmp_path / "again.csv")
        complete_outcomes(opened, PLAN.cells, PLAN.task_of)
    assert content(copy) == content(store)
    assert (tmp_path / "again.csv").read_bytes() == exported.read_bytes()
    assert (tmp_path / "again.json").read_bytes() == exported.with_suffix(".json").read_bytes()


def test_numbers_and_texts_survive_a_csv_file_exactly(tmp_path: Path) -> None:
    odd = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, float("inf"), -0.0]
    reason = 'a "quoted", reason\nwith\r\ntwo line ends, a # and ünïcode'

    def fit(job: Job, task: Task) -> Record:
        record = HashedFit(diverging=0)(job, task)
        number = odd[job.key.slot % len(odd)]
        return replace(record, outcome=replace(record.outcome, validation_loss=number, reason=reason), seconds=1e-9)

    plan = small_plan("A, with a comma", families=("gru",))
    run_small(tmp_path / "store.sqlite", plan, InlineEngine(fit))
    with Store.read(tmp_path / "store.sqlite") as store:
        export_csv(store, tmp_path / "fits.csv")
        there = read_csv(tmp_path / "fits.csv")
        assert sorted(there.records, key=lambda record: record.job.key) == store.records()
        assert there.described.settings == plan.settings


def test_parts_of_a_campaign_from_two_machines_add_up(tmp_path: Path, store: Path) -> None:
    paths = []
    for name in ("A", "B"):
        run_small(tmp_path / f"{name}.sqlite", small_plan(name), InlineEngine(HashedFit()))
        with Store.read(tmp_path / f"{name}.sqlite") as part:
            paths.append(tmp_path / f"{name}.csv")
            export_csv(part, paths[-1])
    whole = tmp_path / "whole.sqlite"
    with Store.create_or_resume(whole, PLAN.settings, {}) as opened:
        assert [import_csv(opened, path) for path in paths] == [16, 16]
        complete_outcomes(opened, PLAN.cells, PLAN.task_of)
    assert deterministic_export(whole) == deterministic_export(store)


def test_a_campaign_goes_on_where_an_import_ends(tmp_path: Path, store: Path, exported: Path) -> None:
    def keep_selection(rows: list[list[str]]) -> None:
        rows[:] = [row for row in rows if row[2] != FINAL]

    edit(exported, keep_selection)
    description = json.loads(exported.with_suffix(".json").read_text())
    del description["openings"]  # as if it had been exported before any was opened
    finals = 2 * len(PLAN.cells)
    exported.with_suffix(".json").write_text(json.dumps({**description, "fits": PLAN.size - finals}))
    copy = tmp_path / "copy.sqlite"
    with Store.create_or_resume(copy, PLAN.settings, {}) as opened:
        import_csv(opened, exported)
        assert opened.openings() == {}
    engine = InlineEngine(HashedFit())
    run_small(copy, PLAN, engine)
    assert [job.key.stage for _, job in engine.submitted] == [FINAL] * finals
    assert deterministic_export(copy) == deterministic_export(store)


def test_a_conflicting_record_is_refused_with_both_values_and_nothing_is_imported(
    tmp_path: Path, store: Path, exported: Path
) -> None:
    with filled_store(store, PLAN) as opened:
        victim = "task = 'B' AND family = 'gru' AND stage = 'screen' AND slot = 2"
        opened._connection.execute(f"UPDATE fits SET validation_loss = 0.125 WHERE {victim}")
        opened._connection.execute("DELETE FROM fits WHERE task = 'A' AND stage = 'screen'")
        before = opened.records()
        with pytest.raises(
            StudyError, match=r"B/gru/screen/2/7: .* disagree: validation_loss 0.125 against 0\.\d+\. Not"
        ):
            import_csv(opened, exported)
        assert opened.records() == before


def test_failed_fits_conflict_with_nothing_and_give_way(tmp_path: Path, store: Path, exported: Path) -> None:
    bad = "A/gru/screen/1/7"

    def fit(job: Job, task: Task) -> Record:
        record = HashedFit()(job, task)
        return replace(record, outcome=Outcome(FAILED, "planted")) if str(job.key) == bad else record

    failed = tmp_path / "failed.sqlite"
    run_small(failed, PLAN, InlineEngine(fit))
    with Store.read(failed) as opened:
        export_csv(opened, tmp_path / "failed.csv")
    with filled_store(store, PLAN) as opened:
        assert import_csv(opened, tmp_path / "failed.csv") == 0
    with filled_store(failed, PLAN) as opened:
        assert import_csv(opened, exported) == 5  # the failed fit, and what it blocked
    assert deterministic_export(failed) == deterministic_export(store)


def test_finals_under_another_opening_are_refused(tmp_path: Path, store: Path, exported: Path) -> None:
    def reopen(rows: list[list[str]]) -> None:
        for row in rows:
            if row[:3] == ["B", "gru", FINAL]:
                row[7] = "f" * 64

    def reopen_description(description: dict) -> None:
        opening = next(each for each in description["openings"] if (each["task"], each["family"]) == ("B", "gru"))
        opening["frozen"] = "f" * 64

    edit(exported, reopen)
    with (
        filled_store(store, PLAN) as opened,
        pytest.raises(StudyError, match=r"finals of B/gru .* not belong together"),
    ):
        import_csv(opened, exported)
    edit_description(exported, reopen_description)
    before = content(store)
    with filled_store(store, PLAN) as opened, pytest.raises(StudyError, match=r"B/gru: TEST was opened .* refused"):
        import_csv(opened, exported)
    assert content(store) == before
    wrong = r"B/gru/final/0/23: trained under the frozen configuration f+.*, but the selection of B/gru gives"
    with Store.create_or_resume(tmp_path / "fresh.sqlite", PLAN.settings, {}) as opened:
        with pytest.raises(StudyError, match=wrong):
            import_csv(opened, exported, PLAN.task_of)
        assert opened.records() == []
        assert opened.openings() == {}
        import_csv(opened, exported)
        with pytest.raises(StudyError, match=wrong):
            complete_outcomes(opened, PLAN.cells, PLAN.task_of)


def test_finals_of_one_cell_under_two_configurations_are_refused(tmp_path: Path, exported: Path) -> None:
    def split(rows: list[list[str]]) -> None:
        next(row for row in rows if row[2] == FINAL)[7] = "f" * 64

    edit(exported, split)
    with (
        Store.create_or_resume(tmp_path / "fresh.sqlite", PLAN.settings, {}) as opened,
        pytest.raises(StudyError, match="finals of A/alphabet were trained under different configurations"),
    ):
        import_csv(opened, exported)


def test_fits_under_other_settings_are_refused(tmp_path: Path, exported: Path) -> None:
    other = small_plan("A", epochs=31)
    with filled_store(tmp_path / "other.sqlite", other) as opened, pytest.raises(StudyError, match="other settings"):
        import_csv(opened, exported)


def test_fits_on_other_data_are_refused(tmp_path: Path, store: Path, exported: Path) -> None:
    path = exported.with_suffix(".json")
    description = json.loads(path.read_text())
    description["data"]["B"]["test"] = "another"
    path.write_text(json.dumps(description))
    with (
        filled_store(store, PLAN) as opened,
        pytest.raises(StudyError, match=r"fits of B ran on other data .* TEST another there, B test here"),
    ):
        import_csv(opened, exported)


def test_fits_of_a_task_that_is_not_there_are_refused_and_nothing_is_imported(tmp_path: Path, exported: Path) -> None:
    with Store.create_or_resume(tmp_path / "fresh.sqlite", PLAN.settings, {}) as opened:
        with pytest.raises(StudyError, match=r"fits.csv: B/alphabet: there is no task B here; use the version"):
            import_csv(opened, exported, {"A": PLAN.task_of["A"]})
        assert opened.records() == []
        assert opened.data_digests() == {}


@pytest.mark.parametrize("separator", ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x00"])
def test_a_reason_with_any_line_separator_survives_a_csv_file(tmp_path: Path, separator: str) -> None:
    def fit(job: Job, task: Task) -> Record:
        return replace(HashedFit()(job, task), outcome=Outcome(FAILED, f"one{separator}two{separator}"))

    run_small(tmp_path / "store.sqlite", small_plan("A", families=("gru",)), InlineEngine(fit))
    with Store.read(tmp_path / "store.sqlite") as store:
        export_csv(store, tmp_path / "fits.csv")
        assert read_csv(tmp_path / "fits.csv").records == store.records()


def opened_without_final(path: Path) -> Path:
    """The export of a campaign that was stopped when TEST had been opened, before the first final ended."""

    def fit(job: Job, task: Task) -> Record:
        if job.key.stage == FINAL:
            raise KeyboardInterrupt
        return HashedFit(diverging=0)(job, task)

    with pytest.raises(KeyboardInterrupt):
        run_small(path / "stopped.sqlite", small_plan("A", families=("gru",)), InlineEngine(fit))
    with Store.read(path / "stopped.sqlite") as store:
        assert len(store.openings()) == 1
        export_csv(store, path / "stopped.csv")
    return path / "stopped.csv"


def test_an_opening_of_test_without_a_final_survives_an_export(tmp_path: Path) -> None:
    path = opened_without_final(tmp_path)
    with Store.create_or_resume(tmp_path / "copy.sqlite", PLAN.settings, {}) as copy:
        import_csv(copy, path, PLAN.task_of)
        with Store.read(tmp_path / "stopped.sqlite") as store:
            assert copy.openings() == store.openings()


@pytest.mark.parametrize(("name", "value"), [("frozen", "f" * 64), ("candidate", "gru/other"), ("epochs", 99)])
def test_an_opening_that_the_selection_does_not_give_is_refused(tmp_path: Path, name: str, value: object) -> None:
    path = opened_without_final(tmp_path)
    edit_description(path, partial(set_in, ("openings", 0, name), value))
    with Store.create_or_resume(tmp_path / "copy.sqlite", PLAN.settings, {}) as copy:
        with pytest.raises(StudyError, match=rf"A/gru: TEST was opened under .*{value}.*, but the selection gives"):
            import_csv(copy, path, PLAN.task_of)
        assert copy.openings() == {}


@pytest.mark.parametrize("lacking", [("openings", "planned"), ("planned",)])
def test_an_export_of_an_earlier_version_is_accepted(
    tmp_path: Path, store: Path, exported: Path, lacking: tuple[str, ...]
) -> None:
    edit_description(exported, lambda description: [description.pop(name) for name in lacking])
    copy = tmp_path / "copy.sqlite"
    with Store.create_or_resume(copy, PLAN.settings, {}) as opened:
        assert import_csv(opened, exported, PLAN.task_of) == PLAN.size
    assert content(copy)[:3] == content(store)[:3]
    assert content(copy)[3] == set()


def test_the_export_in_this_repository_is_imported(tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "study" / "fits.csv"
    if not path.is_file():
        pytest.skip("needs the repository's study/fits.csv, which is no part of the package")
    described, records = read_csv(path)
    with Store.create_or_resume(tmp_path / "copy.sqlite", described.settings, {}) as copy:
        assert import_csv(copy, path, TASKS) == described.fits == len(records)


def test_cells_that_never_began_are_missed_where_an_export_is_imported(tmp_path: Path) -> None:
    path, plan = tmp_path / "stopped.sqlite", small_plan("A", "B", families=("gru",))
    run_small(path, small_plan("A", families=("gru",)), InlineEngine(HashedFit(diverging=0)))
    with filled_store(path, plan) as store:
        store.note_planned(plan.cells)
        export_csv(store, tmp_path / "fits.csv")
    never_began = plan.cells[1]
    with Store.create_or_resume(tmp_path / "copy.sqlite", plan.settings, {}) as copy:
        with pytest.raises(StudyError, match=r"fits.csv: B/gru: there is no task B here; use the version"):
            import_csv(copy, tmp_path / "fits.csv", {"A": plan.task_of["A"]})
        assert copy.planned() == set()
        assert import_csv(copy, tmp_path / "fits.csv", plan.task_of) == 8
        assert copy.planned() == set(plan.cells)
        assert "B" not in copy.data_digests()  # nothing ran on them: what they are to be is for that run to say
        with pytest.raises(StudyError, match=f"8 of 16 fits have no record: {never_began}/screen/0/7, "):
            complete_outcomes(copy, sorted(copy.planned()), plan.task_of)


def test_an_export_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, store: Path, exported: Path) -> None:
    before = exported.read_bytes()
    (tmp_path / "file").touch()
    with Store.read(store) as opened, pytest.raises(StudyError, match="cannot be written"):
        export_csv(opened, tmp_path / "file" / "fits.csv")
    (exported.parent / "fits.csv.partial").mkdir()
    with Store.read(store) as opened, pytest.raises(StudyError, match="cannot be written"):
        export_csv(opened, exported)
    assert exported.read_bytes() == before
