"""Members of zip files, fetched from a real server on this machine."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from alphabet_study.errors import StudyError
from alphabet_study.fetching import fetch
from alphabet_study.registry.task import DataFile
from alphabet_testing.study_site import CONTENT, PATH, Site, made_task, serve, sha256


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_members_of_one_zip_file_arrive_with_one_download(site: Site, tmp_path: Path) -> None:
    site.files["/both.zip"] = zipped(**{"deep/one.csv": b"1\n", "deep/two.csv": CONTENT, "rest.txt": b"no"})
    address = f"{site.address}/both.zip"
    one = DataFile("General/Made/one.csv", sha256=sha256(b"1\n"), address=address, member="deep/one.csv")
    two = DataFile("General/Made/two.csv", sha256=sha256(CONTENT), address=address, member="deep/two.csv")
    assert fetch(made_task(one, two), tmp_path) == [tmp_path / one.path, tmp_path / two.path]
    assert len(site.seen) == 1
    assert (tmp_path / two.path).read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["one.csv", "two.csv"]


def test_a_zip_file_is_resumed_too(site: Site, tmp_path: Path) -> None:
    site.files["/one.zip"] = zipped(**{"made.csv": CONTENT})
    file = DataFile(PATH, sha256=sha256(CONTENT), address=f"{site.address}/one.zip", member="made.csv")
    site.cut_at = 100
    with pytest.raises(StudyError, match="broke off after 100 of"):
        fetch(made_task(file), tmp_path)
    site.cut_at = None
    fetch(made_task(file), tmp_path)
    assert site.seen[1] == ("/one.zip", "bytes=100-")
    assert (tmp_path / PATH).read_bytes() == CONTENT


@pytest.mark.parametrize("member", ["../../../escaped.csv", "/escaped.csv", "..\\escaped.csv"])
def test_a_member_never_decides_where_it_is_written(site: Site, tmp_path: Path, member: str) -> None:
    root = tmp_path / "a" / "b" / "root"
    site.files["/one.zip"] = zipped(**{member: CONTENT})
    file = DataFile(PATH, address=f"{site.address}/one.zip", member=member)
    fetch(made_task(file), root)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [root / PATH]
    assert not Path("/escaped.csv").exists()


@pytest.mark.parametrize("path", ["../made.csv", "/made.csv", "General/../../made.csv", "General\\made.csv", ""])
def test_a_declared_path_stays_below_the_root(path: str) -> None:
    with pytest.raises(StudyError, match="below the data root"):
        DataFile(path)


def test_a_zip_file_without_the_member_says_what_it_has(site: Site, tmp_path: Path) -> None:
    site.files["/one.zip"] = zipped(**{"other.csv": b"1"})
    file = DataFile(PATH, address=f"{site.address}/one.zip", member="made.csv")
    with pytest.raises(StudyError, match=r"no member made\.csv, but other\.csv"):
        fetch(made_task(file), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("content", [b"<html>moved</html>", zipped(**{"made.csv": CONTENT})[:-30]])
def test_what_is_no_zip_file_is_refused(site: Site, tmp_path: Path, content: bytes) -> None:
    site.files["/one.zip"] = content
    file = DataFile(PATH, address=f"{site.address}/one.zip", member="made.csv")
    with pytest.raises(StudyError, match="no readable zip file"):
        fetch(made_task(file), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_damaged_member_is_refused(site: Site, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("made.csv", CONTENT)
    damaged = bytearray(stream.getvalue())
    damaged[1000] ^= 1
    site.files["/one.zip"] = bytes(damaged)
    file = DataFile(PATH, address=f"{site.address}/one.zip", member="made.csv")
    with pytest.raises(StudyError, match=r"no readable zip file.*CRC"):
        fetch(made_task(file), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
