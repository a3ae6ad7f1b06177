"""Stores that cannot be used: a clear error, and the file stays as it was."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from alphabet_study.campaign.store import Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import (
    CONFIRM,
)
from alphabet_study.protocol.settings import SMALL
from alphabet_testing.processes import run_python
from alphabet_testing.study_stores import create, make_record


@pytest.fixture
def store(tmp_path: Path):
    with create(tmp_path) as opened:
        yield opened


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
from alphabet_testing.study_stores import create, make_record
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
