import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from alphabet_study.campaign.lock import WriterLock
from alphabet_study.campaign.store import Opening, Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import (
    CONFIRM,
    DIVERGED,
    DONE,
    FAILED,
    FINAL,
    SCREEN,
    Cell,
    FitKey,
    Job,
    Outcome,
    Record,
)
from alphabet_study.protocol.selection import Frozen
from alphabet_study.protocol.settings import PAPER, SMALL
from alphabet_testing.processes import run_python
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class UndoError(Exception):
    """Ends a transaction so that nothing of it is kept."""


CELL = Cell("Made up", "gru")
FROZEN = Frozen(CELL, "gru/032/1x16/B", 12, 0.75, SMALL.digest())


def make_record(
    *,
    stage: str = SCREEN,
    slot: int = 0,
    seed: int = 7,
    status: str = DONE,
    frozen: Frozen | None = None,
    **outcome: object,
) -> Record:
    key = FitKey(CELL.task, CELL.family, stage, slot, seed)
    job = Job(key, FROZEN.candidate, frozen.epochs if frozen else None, frozen.digest() if frozen else None)
    fields = {"score": 0.5, "validation_loss": 0.25, "best_epoch": 3, "epochs": 11, "parameters": 99, "path": "torch"}
    given = Outcome(status, **{**fields, **outcome})  # type: ignore[arg-type]
    return Record(job, given, 1.5, "2026-01-01T00:00:00+00:00", "a processor", "0" * 16)


def create(folder: Path) -> Store:
    return Store.create_or_resume(folder / "store.sqlite", SMALL, {"versions": {"torch": "2"}, "sources": "abc"})


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


# Stores that cannot be used: a clear error, and the file stays as it was.


def test_a_store_of_other_settings_is_refused_with_what_differs(tmp_path: Path) -> None:
    create(tmp_path).close()
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(StudyError, match=r"other settings \(.*epochs 30 there, 31 here\): use the same --settings"):
        Store.create_or_resume(tmp_path / "store.sqlite", replace(SMALL, epochs=31), {})
    assert (tmp_path / "store.sqlite").read_bytes() == before


def test_a_store_of_another_schema_version_is_refused_for_writing_and_reading(tmp_path: Path) -> None:
    create(tmp_path).close()
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StudyError, match=r"schema version 99.* reads version 1"):
        create(tmp_path)
    with pytest.raises(StudyError, match="schema version 99"):
        Store.read(tmp_path / "store.sqlite")


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / "store.sqlite").read_bytes()
    for attempt in (lambda: create(tmp_path), lambda: Store.read(tmp_path / "store.sqlite")):
        with pytest.raises(StudyError, match="no store of alphabet-study"):
            attempt()
    assert (tmp_path / "store.sqlite").read_bytes() == before


@pytest.mark.parametrize("damage", ["text", "torn page", "cut short"])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.sqlite"
    with create(tmp_path) as store, store.transaction():
        for slot in range(300):
            store.add(make_record(stage=CONFIRM, slot=slot))
    content = path.read_bytes()
    middle = 4096 * (len(content) // 8192)
    damaged = {
        "text": b"task,family\n" * 500,
        "torn page": content[:middle] + b"\xff" * 4096 + content[middle + 4096 :],
        "cut short": content[:middle],
    }[damage]
    path.write_bytes(damaged)
    with pytest.raises(StudyError, match=r"damaged or no store .*left as it is"):
        create(tmp_path)
    assert path.read_bytes() == damaged


def test_a_store_that_is_marked_read_only_is_not_written_but_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with create(tmp_path) as store:
        store.add(make_record())
    path.chmod(0o444)
    with pytest.raises(StudyError, match=r"read-only: make the file and its folder writable"):
        create(tmp_path)
    with Store.read(path) as store:
        assert store.records() == [make_record()]


def mount(options: str, code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has a small memory file system of its own at `folder`, or skip the test."""
    script = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(folder)]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system (unshare --user --mount)")
    return subprocess.run(
        [*prefix, sys.executable, "-c", code, str(folder)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


FILL = """
import os, subprocess, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, os.environ["TESTS"])
from test_store import create, make_record
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
folder = Path(sys.argv[1])
store = create(folder)
kept = 0
try:
    while True:
        store.add(make_record(stage="confirm", slot=kept, reason="x" * 1000))
        kept += 1
except StudyError as error:
    print(error)
store.close()
"""


@pytest.mark.slow
def test_a_full_disk_is_a_clear_error_and_nothing_recorded_is_lost(tmp_path: Path) -> None:
    code = FILL + (
        "subprocess.run(['mount', '-o', 'remount,size=8m', str(folder)], check=True)\n"
        "with create(folder) as store:\n"
        "    assert len(store.records()) == kept > 30, (kept, len(store.records()))\n"
        "    assert store.add(make_record(stage='confirm', slot=kept))\n"
    )
    result = mount("size=1m", code, tmp_path, TESTS=str(Path(__file__).parent))
    assert result.returncode == 0, result.stderr
    assert "the disk is full" in result.stdout
    assert "every fit that was recorded is kept" in result.stdout


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_a_clear_error_and_nothing_recorded_is_lost(tmp_path: Path) -> None:
    code = (
        f"import resource, signal, sys; sys.argv = ['', {str(tmp_path)!r}]\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))\n"
        f"{FILL}"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "with create(folder) as store:\n"
        "    assert len(store.records()) == kept > 10, (kept, len(store.records()))\n"
        "    assert store.add(make_record(stage='confirm', slot=kept))\n"
    )
    result = run_python(code, TESTS=str(Path(__file__).parent))
    assert "is the disk full or gone?" in result.stdout or "the disk is full" in result.stdout


def test_a_database_that_is_full_refuses_the_record_and_keeps_the_others(store: Store) -> None:
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store.add(make_record())
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    fits = [make_record(slot=slot, reason="x" * 1000) for slot in range(1, 50)]
    with pytest.raises(StudyError, match="the disk is full; every fit that was recorded is kept"):
        deque(map(store.add, fits))
    kept = store.records()
    assert kept[0] == make_record()
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert store.add(make_record(slot=99))
    assert len(store.records()) == len(kept) + 1


@pytest.mark.slow
def test_a_file_system_that_is_mounted_read_only_is_refused(tmp_path: Path) -> None:
    code = FILL.partition("store = create")[0] + (
        "create(folder).close()\n"
        "subprocess.run(['mount', '-o', 'remount,ro', str(folder)], check=True)\n"
        "Store.read(folder / 'store.sqlite').close()\n"
        "try:\n    create(folder)\nexcept StudyError as error:\n    print(error)\n"
    )
    result = mount("size=1m", code, tmp_path, TESTS=str(Path(__file__).parent))
    assert result.returncode == 0, result.stderr
    assert "Read-only file system" in result.stdout or "read-only" in result.stdout


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"file/below/store.sqlite: the store cannot be opened \(Not a directory\)"):
        create(tmp_path / "file" / "below")


def test_a_folder_in_place_of_a_store_is_called_one_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "store.sqlite"
    folder.mkdir()
    for attempt in (lambda: create(tmp_path), lambda: Store.read(folder)):
        with pytest.raises(StudyError, match=r"store\.sqlite is a folder; a store is a file: name one by --store"):
            attempt()
    assert list(tmp_path.iterdir()) == [folder]


def test_data_that_changed_are_refused(store: Store) -> None:
    store.check_data("Made up", {"train": "a", "test": "b"})
    store.check_data("Made up", {"train": "a", "test": "b"})
    with pytest.raises(StudyError, match=r"Made up: the files of TEST have changed .*digest c, .* with b\. Restore"):
        store.check_data("Made up", {"train": "a", "test": "c"})
    assert store.data_digests() == {"Made up": {"train": "a", "test": "b"}}


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
