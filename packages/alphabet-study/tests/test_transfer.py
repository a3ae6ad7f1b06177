import csv
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alphabet_study.campaign.plan import complete_outcomes
from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import export_csv, import_csv, read_csv
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, FINAL, Job, Outcome, Record
from alphabet_study.registry.task import Task
from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    deterministic_export,
    filled_store,
    run_small,
    small_plan,
)

PLAN = small_plan("A", "B")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    run_small(path, PLAN, InlineEngine(HashedFit()))
    return path


@pytest.fixture
def exported(tmp_path: Path, store: Path) -> Path:
    with Store.read(store) as opened:
        assert export_csv(opened, tmp_path / "out" / "fits.csv") == PLAN.size
    return tmp_path / "out" / "fits.csv"


def content(path: Path) -> tuple[object, ...]:
    with Store.read(path) as store:
        openings = {cell: opening[:3] for cell, opening in store.openings().items()}
        return store.records(), openings, store.data_digests()


def edit(path: Path, change: Callable[[list[list[str]]], object]) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


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
        assert there.settings == plan.settings


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

    edit(exported, reopen)
    before = content(store)
    with filled_store(store, PLAN) as opened, pytest.raises(StudyError, match=r"B/gru: TEST was opened .* refused"):
        import_csv(opened, exported)
    assert content(store) == before
    wrong = r"B/gru/final/0/23: trained under the frozen configuration f+, but the selection of B/gru gives"
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


def set_field(row: int, column: int, text: str, rows: list[list[str]]) -> None:
    rows[row][column] = text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (partial(set_field, 0, 0, "Task"), r"fits.csv, line 1: the header must be task,family,"),
        (partial(set_field, 3, 3, "two"), r"fits.csv, line 4, column slot: 'two' is not understood"),
        (partial(set_field, 3, 10, "high"), r"fits.csv, line 4, column score: 'high' is not understood"),
        (
            partial(set_field, 3, 2, "rehearsal"),
            r"line 4, column stage: 'rehearsal' .* must be one of screen, confirm, final",
        ),
        (partial(set_field, 3, 8, "fine"), r"line 4, column status: 'fine' .* must be one of done, diverged, failed"),
        (partial(set_field, 3, 16, "[1]"), r"line 4, column test: .* a JSON object"),
        (partial(set_field, 3, 16, "{"), r"line 4, column test: '\{' is not understood"),
        (partial(set_field, 3, 5, ""), r"line 4, column candidate: '' is not understood: it must not be empty"),
        (partial(set_field, 3, 0, "C"), r"line 4: fits.json has no digests of C's data"),
        (lambda rows: rows[3].pop(), r"line 4: 20 columns found, 21 expected"),
        (lambda rows: rows.append(rows[3]), r"line 34: A/alphabet/screen/2/7 occurs twice"),
        (lambda rows: rows.pop(), r"has 31 fits, but fits.json beside it describes 32"),
        (lambda rows: rows.clear(), r"fits.csv, line 1: the header must be"),
    ],
)
def test_a_malformed_file_is_refused_with_line_and_column(exported: Path, change: Callable, message: str) -> None:
    edit(exported, change)
    with pytest.raises(StudyError, match=message):
        read_csv(exported)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}', "\x00"])
def test_a_malformed_description_is_refused(exported: Path, text: str) -> None:
    exported.with_suffix(".json").write_text(text)
    with pytest.raises(StudyError, match=r"fits.json does not describe an export"):
        read_csv(exported)


def test_a_csv_file_without_its_description_is_refused(exported: Path) -> None:
    exported.with_suffix(".json").unlink()
    with pytest.raises(StudyError, match=r"fits.json is missing: .* copy both files"):
        read_csv(exported)


def test_bytes_that_are_no_text_and_files_that_are_not_there_are_refused(tmp_path: Path, exported: Path) -> None:
    exported.write_bytes(b"\xff\xfe" + exported.read_bytes())
    with pytest.raises(StudyError, match="cannot be read"):
        read_csv(exported)
    exported.unlink()
    with pytest.raises(StudyError, match="cannot be read"):
        read_csv(exported)
    with pytest.raises(StudyError, match=r"must end in \.csv"):
        read_csv(tmp_path / "fits.txt")


def test_an_export_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, store: Path, exported: Path) -> None:
    before = exported.read_bytes()
    (tmp_path / "file").touch()
    with Store.read(store) as opened, pytest.raises(StudyError, match="cannot be written"):
        export_csv(opened, tmp_path / "file" / "fits.csv")
    (exported.parent / "fits.csv.partial").mkdir()
    with Store.read(store) as opened, pytest.raises(StudyError, match="cannot be written"):
        export_csv(opened, exported)
    assert exported.read_bytes() == before
