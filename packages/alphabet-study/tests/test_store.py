import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from alphabet_study.campaign.lock import WriterLock
from alphabet_study.campaign.store import Opening, Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import (
    DIVERGED,
    DONE,
    FAILED,
    FINAL,
    Cell,
)
from alphabet_study.protocol.settings import PAPER, SMALL
from alphabet_testing.study_stores import CELL, FROZEN, create, make_record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class UndoError(Exception):
    """Ends a transaction so that nothing of it is kept."""


@pytest.fixture
def store(tmp_path: Path):
    with create(tmp_path) as opened:
        yield opened


numbers = st.none() | st.floats(allow_nan=False)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(
    status=st.sampled_from((DONE, DIVERGED, FAILED)), reason=texts, score=numbers, validation_loss=numbers, path=texts,
    parameters=st.none() | st.integers(0, 2**62),
    test=st.dictionaries(st.text("abc_1", min_size=1), st.floats(allow_nan=False), max_size=3),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # every example leaves the store as it was
def test_a_record_reads_back_to_the_last_bit(store: Store, **outcome: object) -> None:
    record = make_record(stage=FINAL, frozen=FROZEN, **outcome)  # type: ignore[arg-type]
    with suppress(UndoError), store.transaction():
        store.open_test(FROZEN)
        store.add(record)
        assert store.records() == [record]
        raise UndoError
    assert store.records() == []


def test_a_score_that_is_not_a_number_is_kept_as_none(store: Store) -> None:
    store.add(make_record(score=float("nan")))
    assert store.records()[0].outcome.score is None


def test_the_same_record_again_changes_nothing_and_another_is_refused(store: Store) -> None:
    first = make_record()
    assert store.add(first)
    assert not store.add(replace(first, seconds=99.0, machine="another"))
    with pytest.raises(StudyError, match=r"Made up/gru/screen/0/7: conflicting .*score 0.5 against 0.5000000000000001"):
        store.add(make_record(score=0.5000000000000001))
    assert store.records() == [first]


def test_a_failed_fit_gives_way_to_a_finished_one_and_never_replaces_it(store: Store) -> None:
    failed = make_record(status=FAILED, reason="killed")
    assert store.add(failed)
    assert store.add(make_record())
    assert not store.add(failed)
    assert [record.outcome.status for record in store.records()] == [DONE]


def test_failed_fits_are_forgotten_for_the_cells_that_are_asked_for_only(store: Store) -> None:
    store.add(make_record(status=FAILED, reason="killed"))
    store.add(make_record(slot=1))
    assert store.delete_failed({Cell("Made up", "lstm")}) == 0
    assert store.delete_failed({CELL}) == 1
    assert [record.job.key.slot for record in store.records()] == [1]


def test_the_stores_manifest_says_what_was_settled_at_its_creation(store: Store) -> None:
    manifest = store.manifest()
    assert store.settings == SMALL
    assert manifest["settings_digest"] == SMALL.digest()
    assert manifest["versions"] == {"torch": "2"}
    assert manifest["sources"] == "abc"
    assert "created" in manifest


def test_planned_cells_are_remembered_once_whatever_was_planned_before(store: Store) -> None:
    assert store.planned() == set()
    store.note_planned([CELL])
    store.note_planned([CELL, Cell("Made up", "lstm")])
    assert store.planned() == {CELL, Cell("Made up", "lstm")}


def test_a_store_from_before_plans_were_remembered_is_read_as_it_is_and_gets_the_table_when_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    with create(tmp_path) as store:
        store.add(make_record())
        store._connection.execute("DROP TABLE planned")
    before = path.read_bytes()
    with Store.read(path) as store:
        assert store.planned() == set()
        assert store.records() == [make_record()]
    assert path.read_bytes() == before
    with create(tmp_path) as store:
        store.note_planned([CELL])
        assert store.planned() == {CELL}
        assert store.records() == [make_record()]


# TEST and its openings.


def test_test_is_opened_under_one_frozen_configuration_only(store: Store) -> None:
    store.open_test(FROZEN)
    first = store.openings()
    store.open_test(FROZEN)
    assert store.openings() == first
    assert first[CELL][:3] == (FROZEN.digest(), FROZEN.candidate, FROZEN.epochs)
    other = replace(FROZEN, candidate="gru/064/1x16/B")
    with pytest.raises(StudyError, match=r"Made up/gru: TEST was opened .*gru/032/1x16/B.* gru/064/1x16/B .* refused"):
        store.open_test(other)
    assert store.openings() == first


@pytest.mark.parametrize("change", [{"epochs": 13}, {"mean_score": 0.7500000000000001}, {"settings": PAPER.digest()}])
def test_whatever_differs_in_a_frozen_configuration_makes_it_a_different_opening(store: Store, change: dict) -> None:
    store.open_test(FROZEN)
    with pytest.raises(StudyError, match="refused"):
        store.open_test(replace(FROZEN, **change))


def test_a_final_is_kept_only_under_its_cells_opening(store: Store) -> None:
    final = make_record(stage=FINAL, frozen=FROZEN, test={"accuracy": 0.5})
    with pytest.raises(StudyError, match="was not opened"):
        store.add(final)
    store.open_test(replace(FROZEN, epochs=13))
    with pytest.raises(StudyError, match="was opened under"):
        store.add(final)
    assert store.records() == []


# One writer, many readers.


def test_a_second_writer_is_refused_while_the_first_lives_and_readers_are_not(tmp_path: Path) -> None:
    with create(tmp_path) as first:
        first.add(make_record())
        with pytest.raises(StudyError, match=rf"another campaign \(process {os.getpid()}\) is writing"):
            create(tmp_path)
        with Store.read(tmp_path / "store.sqlite") as reader:
            assert len(reader.records()) == 1
            first.add(make_record(slot=1))
            assert len(reader.records()) == 2
    create(tmp_path).close()


def test_the_lock_of_a_killed_writer_is_free(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time; from alphabet_study.campaign.lock import WriterLock\n"
        "lock = WriterLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    path = tmp_path / "store.sqlite"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(StudyError, match=f"process {holder.pid}"):
                WriterLock(path)
        finally:
            holder.send_signal(signal.SIGKILL)
        holder.wait()
        WriterLock(path).release()


def test_what_is_written_together_is_kept_together_or_not_at_all(store: Store) -> None:
    store.add(make_record())
    with suppress(UndoError), store.transaction():
        store.add(make_record(slot=1))
        store.note_opening(CELL, Opening("f", "c", None, "then"))
        raise UndoError
    assert len(store.records()) == 1
    assert store.openings() == {}
    assert store.add(make_record(slot=1))
