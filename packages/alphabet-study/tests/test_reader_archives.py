"""Archives and stacked series stay within bounds: nothing twice, nothing cut off, no more memory than data takes."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS, archives
from alphabet_study.readers.archives import read_tar, read_zip
from alphabet_testing.study_files import declare, pack

Read = Callable[[Path, Callable[[str], bool]], Iterator[tuple[str, bytes]]]
KINDS: dict[str, Read] = {"x.tar.gz": read_tar, "x.zip": read_zip}


def every(name: str) -> bool:
    return True


@pytest.mark.parametrize("name", KINDS)
def test_members_come_with_their_names_and_only_if_wanted(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(pack(name, {"folder/a.txt": b"one", "b.bin": b"", "folder/deep/c.txt": b"three"}))
    assert list(KINDS[name](path, every)) == [("a.txt", b"one"), ("b.bin", b""), ("c.txt", b"three")]
    assert list(KINDS[name](path, lambda member: member == "c.txt")) == [("c.txt", b"three")]


@pytest.mark.parametrize("name", KINDS)
def test_a_name_that_comes_twice_is_refused(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(pack(name, {"a/1.txt": b"one", "b/1.txt": b"another"}))
    with pytest.raises(StudyError, match=r"member 'b/1\.txt' is there twice or has no possible size"):
        list(KINDS[name](path, every))


@pytest.mark.parametrize("name", KINDS)
def test_what_unpacks_to_more_than_the_bound_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / name
    path.write_bytes(pack(name, {"zeros": bytes(50_000)}))
    assert len(next(KINDS[name](path, every))[1]) == 50_000
    monkeypatch.setattr(archives, "MOST_BYTES", 40_000)
    with pytest.raises(StudyError, match=r"unpacks to over|no possible size"):
        list(KINDS[name](path, every))


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_is_no_archive_is_refused(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(StudyError, match=r"not a complete (gzip|zip) archive .*; fetch it again"):
        list(KINDS[name](path, every))


def test_a_member_larger_than_its_archive_is_refused(tmp_path: Path):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 10**12
        archive.addfile(entry)
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(plain.getvalue()))
    with pytest.raises(StudyError, match=r"member 'a\.txt' is there twice or has no possible size|not a complete tar"):
        list(read_tar(path, every))


def test_links_and_folders_are_no_members(tmp_path: Path):
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.DIRTYPE):
            entry = tarfile.TarInfo("a.txt")
            entry.type, entry.linkname = kind, "/etc/hostname"
            archive.addfile(entry)
    assert list(read_tar(path, every)) == []


def test_an_encrypted_member_is_refused(tmp_path: Path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", b"secret")
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the local header, and below that in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(StudyError, match="not a complete zip archive"):
        list(read_zip(path, every))


def test_one_long_series_among_many_short_ones_does_not_take_all_memory(tmp_path: Path):
    lines = [b"@classLabel true a", b"@data", b",".join([b"1"] * 300_000) + b":a", *[b"1:a"] * 4000]
    (tmp_path / "X_TRAIN.ts").write_bytes(b"\n".join(lines))
    with pytest.raises(StudyError, match="4001 series x 300000 steps x 1 channels, padded, take over 4 GiB"):
        READERS["ucr"].train(declare("X", "ucr", ("X_TRAIN.ts",), ()), tmp_path)
