"""Where files are found, which win, and how right, unknown, wrong and absent ones are told apart."""

import dataclasses
import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Literal

import pytest
from alphabet_study.data_root import (
    ABSENT,
    DIFFERS,
    UNKNOWN,
    VERIFIED,
    Presence,
    contents_digest,
    data_digest,
    embedded_folder,
    find_root,
    locate_files,
    presence,
    task_folder,
)
from alphabet_study.errors import StudyError
from alphabet_study.registry import TASKS, DataFile, Task, find_task, find_tasks
from alphabet_study.task_table import task_table
from rich.console import Console

EMBEDDED = [task for task in TASKS.values() if task.embedded is not None]
GUNPOINT = find_task("GunPoint")


def copied(task: Task, root: Path) -> Path:
    """The task's bundled files, copied into a root."""
    source = embedded_folder(task)
    assert source is not None
    for file in task.files:
        (root / file.path).parent.mkdir(parents=True, exist_ok=True)
        (root / file.path).write_bytes((source / file.name).read_bytes())
    return (root / task.files[0].path).parent


def archived(path: Path, members: dict[str, bytes], *, mode: Literal["w:gz", "w:xz"], date: int) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), date
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_option_wins_over_the_variable_and_nothing_means_the_embedded_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "option").mkdir()
    (tmp_path / "variable").mkdir()
    monkeypatch.setenv("ALPHABET_DATA", str(tmp_path / "variable"))
    assert find_root(tmp_path / "option") == tmp_path / "option"
    assert find_root(None) == tmp_path / "variable"
    monkeypatch.setenv("ALPHABET_DATA", "")
    assert find_root(None) is None
    monkeypatch.delenv("ALPHABET_DATA")
    assert find_root(None) is None


def test_a_root_that_does_not_exist_is_refused_by_the_name_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StudyError, match=r"--data .*nowhere: there is no such folder"):
        find_root(tmp_path / "nowhere")
    monkeypatch.setenv("ALPHABET_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(StudyError, match=r"ALPHABET_DATA=.*nowhere: there is no such folder"):
        find_root(None)
    assert find_root(None, create=True) == tmp_path / "nowhere"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StudyError, match="cannot be made"):
        find_root(tmp_path / "file" / "below", create=True)


@pytest.mark.parametrize("task", EMBEDDED, ids=lambda task: task.name)
def test_bundled_sets_are_there_and_verified_without_a_root(task: Task) -> None:
    assert presence(task, None) == Presence(VERIFIED, "bundled with aeon")
    assert all(path.is_file() for split in ("train", "test") for path in locate_files(task, None, split))


def test_a_file_in_the_root_wins_over_the_bundled_one(tmp_path: Path) -> None:
    assert task_folder(GUNPOINT, tmp_path) == embedded_folder(GUNPOINT)
    folder = copied(GUNPOINT, tmp_path)
    assert task_folder(GUNPOINT, tmp_path) == folder == tmp_path / "UCR" / "GunPoint"
    assert presence(GUNPOINT, tmp_path).status == VERIFIED
    assert presence(GUNPOINT, tmp_path).detail == str(folder)


def test_a_root_with_half_a_task_is_not_completed_from_the_bundle(tmp_path: Path) -> None:
    folder = copied(GUNPOINT, tmp_path)
    (folder / "GunPoint_TEST.ts").unlink()
    found = presence(GUNPOINT, tmp_path)
    assert found.status == ABSENT
    assert "lacks GunPoint_TEST.ts" in found.detail
    assert [path.name for path in locate_files(GUNPOINT, tmp_path, "train")] == ["GunPoint_TRAIN.ts"]
    with pytest.raises(StudyError, match=r"task GunPoint: .* lacks GunPoint_TEST\.ts; `alphabet-study fetch GunPoint`"):
        locate_files(GUNPOINT, tmp_path, "test")


def test_one_changed_byte_is_a_hash_that_differs(tmp_path: Path) -> None:
    folder = copied(GUNPOINT, tmp_path)
    content = bytearray((folder / "GunPoint_TEST.ts").read_bytes())
    content[-2] ^= 1
    (folder / "GunPoint_TEST.ts").write_bytes(content)
    found = presence(GUNPOINT, tmp_path)
    assert found.status == DIFFERS
    assert found.detail.startswith(f"GunPoint_TEST.ts in {folder}")


def test_files_without_a_declared_hash_are_present_with_unknown_hash(tmp_path: Path) -> None:
    task = find_task("Crop")
    assert presence(task, tmp_path).status == ABSENT
    for file in task.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes(b"1\t2\n")
    assert presence(task, tmp_path).status == UNKNOWN


def test_the_tsv_files_of_2018_stand_in_for_ts_files_with_unknown_hash(tmp_path: Path) -> None:
    task = find_task("Coffee")
    for file in task.files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).with_suffix(".tsv").write_bytes(b"1\t2\n")
    assert presence(task, tmp_path).status == UNKNOWN
    assert [path.name for path in locate_files(task, tmp_path, "test")] == ["Coffee_TEST.tsv"]


def test_what_is_absent_says_how_to_get_it(tmp_path: Path) -> None:
    assert presence(find_task("Crop"), tmp_path).detail == "`alphabet-study fetch Crop`"
    assert "get traffic.csv from https://github.com" in presence(find_task("Traffic"), tmp_path).detail
    assert presence(find_task("PTB-XL"), tmp_path).detail == "see https://physionet.org/content/ptb-xl/1.0.3/"
    with pytest.raises(
        StudyError, match=r"task Crop: its files are absent without a data root.*alphabet-study fetch Crop"
    ):
        task_folder(find_task("Crop"), None)
    with pytest.raises(StudyError, match=r"task PTB-XL declares no files: .*wfdb"):
        task_folder(find_task("PTB-XL"), tmp_path)


def test_a_digest_of_train_needs_nothing_of_test(tmp_path: Path) -> None:
    folder = copied(GUNPOINT, tmp_path)
    before = data_digest(GUNPOINT, tmp_path, "train")
    assert before == data_digest(GUNPOINT, None, "train")
    (folder / "GunPoint_TEST.ts").write_bytes(b"changed")
    assert data_digest(GUNPOINT, tmp_path, "train") == before
    # A pipe without a writer: whoever opened TEST would wait for ever.
    (folder / "GunPoint_TEST.ts").unlink()
    os.mkfifo(folder / "GunPoint_TEST.ts")
    assert data_digest(GUNPOINT, tmp_path, "train") == before


def test_a_digest_sees_every_byte_and_where_files_end(tmp_path: Path) -> None:
    names = ("a.csv", "b.csv")
    task = dataclasses.replace(
        GUNPOINT, files_train=tuple(DataFile(f"UCR/GunPoint/{name}") for name in names), embedded=None
    )
    (tmp_path / "UCR" / "GunPoint").mkdir(parents=True)
    digests = set()
    for contents in ((b"12", b"3"), (b"1", b"23"), (b"123", b""), (b"13", b"2"), (b"12", b"3 ")):
        for name, content in zip(names, contents, strict=True):
            (tmp_path / "UCR" / "GunPoint" / name).write_bytes(content)
        digests.add(data_digest(task, tmp_path, "train"))
    assert len(digests) == 5


def test_a_format_with_one_file_for_both_splits_hashes_it_for_both(tmp_path: Path) -> None:
    task = find_task("ILI")
    (tmp_path / task.files[0].path).parent.mkdir(parents=True)
    (tmp_path / task.files[0].path).write_bytes(b"date,OT\n")
    assert len(task.files) == 1
    assert data_digest(task, tmp_path, "train") == data_digest(task, tmp_path, "test")


def test_a_split_is_train_or_test() -> None:
    with pytest.raises(StudyError, match="split must be train or test; got 'validation'"):
        data_digest(GUNPOINT, None, "validation")


def test_packing_the_same_files_anew_leaves_the_digest_of_contents(tmp_path: Path) -> None:
    members = {"set/1.txt": b"one", "set/2.txt": b"two"}
    turned = {"./set/2.txt": b"two", "./set/1.txt": b"one"}
    first = contents_digest(archived(tmp_path / "first.tar.gz", members, mode="w:gz", date=1))
    assert first == contents_digest(archived(tmp_path / "second.tar.gz", turned, mode="w:xz", date=2))
    others = ({"set/1.txt": b"one"}, {"set/1.txt": b"two", "set/2.txt": b"one"}, {**members, "set/3.txt": b""})
    for position, other in enumerate(others):
        path = archived(tmp_path / f"{position}.tar.gz", other, mode="w:gz", date=1)
        assert contents_digest(path) != first


def test_an_archive_that_breaks_off_or_is_none_differs(tmp_path: Path) -> None:
    whole = archived(tmp_path / "whole.tar.gz", {"1.txt": bytes(range(256)) * 99}, mode="w:gz", date=1)
    file = DataFile("UCR/GunPoint/set.tar.gz", contents=contents_digest(whole))
    task = dataclasses.replace(GUNPOINT, files_train=(file,), files_test=(), embedded=None)
    place = tmp_path / file.path
    place.parent.mkdir(parents=True)
    right = whole.read_bytes()
    flipped = bytearray(right)
    flipped[len(right) // 2] ^= 255
    wrong = (right[:-40], bytes(flipped), b"<html>")
    for content, status in ((right, VERIFIED), *((content, DIFFERS) for content in wrong)):
        place.write_bytes(content)
        assert presence(task, tmp_path).status == status


@pytest.fixture(scope="module")
def data_root() -> Path:
    root = find_root(None)
    if root is None:
        pytest.skip("no data root: set ALPHABET_DATA to check real files")
    return root


@pytest.mark.slow
def test_nothing_in_the_given_data_root_differs_from_what_was_declared(data_root: Path) -> None:
    found = [f"{task.name} {presence(task, data_root)}" for task in TASKS.values()]
    assert [line for line in found if DIFFERS in line] == []


def test_the_table_fits_120_columns_and_says_where_each_task_stands(tmp_path: Path) -> None:
    folder = copied(GUNPOINT, tmp_path)
    (folder / "GunPoint_TRAIN.ts").write_bytes(b"changed")
    paper = io.StringIO()
    Console(width=120, file=paper).print(task_table(find_tasks("all"), tmp_path))
    printed = paper.getvalue()
    lines = [line.rstrip() for line in printed.splitlines()]
    rows = {task.name: next(line for line in lines if line.startswith(f"{task.name} ")) for task in TASKS.values()}
    assert max(map(len, lines)) <= 120
    assert rows["GunPoint"].endswith("hash differs, note")
    assert rows["BasicMotions"].split()[-1] == "verified"
    assert rows["Crop"].split()[3:] == ["bal.", "acc.", "7200/16800", "46x1", "24", "absent,", "fetch"]
    assert "acc. (macro F1)" in rows["PAM (PAMAP2)"]
    assert "AudioSet absent: see https://research.google.com/audioset/download.html; no reader: " in " ".join(
        printed.split()
    )


def test_a_digest_is_the_sha256_that_everybody_computes(tmp_path: Path) -> None:
    folder = copied(GUNPOINT, tmp_path)
    for file in GUNPOINT.files:
        assert hashlib.sha256((folder / file.name).read_bytes()).hexdigest() == file.sha256
