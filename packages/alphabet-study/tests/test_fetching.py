"""Fetching against a real server on this machine, with all that goes wrong between two machines."""

import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from alphabet_study.errors import StudyError
from alphabet_study.fetching import fetch
from alphabet_study.registry.task import DataFile, Task

CONTENT = bytes(range(256)) * 2000
PATH = "General/Made/made.csv"


@dataclass
class Site:
    """What the server holds and how it misbehaves, and the requests that it saw as (path, Range)."""

    files: dict[str, bytes] = field(default_factory=dict)
    tag: str | None = None
    ranges: bool = True
    cut_at: int | None = None
    announce_length: bool = True
    silent: bool = False
    redirect: str | None = None
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


def handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.seen.append((self.path, wanted))
            if site.silent:
                threading.Event().wait(3)
                return
            if site.redirect is not None:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = 0
            if wanted and site.ranges and self.headers.get("If-Range") in (None, site.tag):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if site.announce_length:
                self.send_header("Content-Length", str(len(content) - start))
            if site.tag is not None:
                self.send_header("ETag", site.tag)
            self.end_headers()
            self.wfile.write(content[start : site.cut_at])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def made_task(*files: DataFile, embedded: str | None = None) -> Task:
    return Task(
        name="Made",
        suite="general",
        title="made for a test",
        objective="forecasting",
        metric="mse",
        selection_metric="mse",
        split="predefined",
        final_training="checkpoint",
        channels=1,
        length=1,
        outputs=1,
        train_size=None,
        test_size=None,
        source="https://example.org/made",
        citation="nobody",
        reader="forecasting-csv",
        files_train=files,
        files_test=files,
        embedded=embedded,
    )


def file_at(site: Site, *, sha: str | None = sha256(CONTENT), content: bytes = CONTENT) -> DataFile:
    site.files["/made.csv"] = content
    return DataFile(PATH, sha256=sha, address=f"{site.address}/made.csv")


def leftovers(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file() and path.name != "made.csv")


def test_a_fetched_file_has_its_name_its_bytes_and_no_leftovers(site: Site, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    file = file_at(site)
    assert fetch(made_task(file), tmp_path, on_progress=lambda *report: reports.append(report)) == [tmp_path / PATH]
    assert (tmp_path / PATH).read_bytes() == CONTENT
    assert leftovers(tmp_path) == []
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    assert reports[0] == ("made.csv", 0, len(CONTENT))
    assert reports[-1] == ("made.csv", len(CONTENT), len(CONTENT))


def test_what_is_there_already_is_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    fetch(task, tmp_path)
    assert fetch(task, tmp_path) == []
    assert len(site.seen) == 1


@pytest.mark.parametrize("cut", [1, 65536, 100_001, len(CONTENT) - 1])
@pytest.mark.parametrize("tag", [None, '"version 1"'])
def test_a_broken_transfer_is_resumed_where_it_broke(site: Site, tmp_path: Path, cut: int, tag: str | None) -> None:
    task = made_task(file_at(site))
    site.tag, site.cut_at = tag, cut
    with pytest.raises(StudyError, match=f"broke off after {cut} of {len(CONTENT)} bytes.*resumes"):
        fetch(task, tmp_path)
    assert not (tmp_path / PATH).exists()
    site.cut_at = None
    fetch(task, tmp_path)
    assert site.seen[1] == ("/made.csv", f"bytes={cut}-")
    assert (tmp_path / PATH).read_bytes() == CONTENT
    assert leftovers(tmp_path) == []


def test_an_interrupt_keeps_what_has_arrived(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))

    def interrupt(name: str, done: int, total: int | None) -> None:
        if done > 200_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(task, tmp_path, on_progress=interrupt)
    fetch(task, tmp_path)
    (_, first), (_, second) = site.seen
    assert first is None
    assert second is not None
    assert (tmp_path / PATH).read_bytes() == CONTENT


def test_a_server_without_ranges_sends_all_of_it_again(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    site.ranges, site.cut_at = False, 1000
    with pytest.raises(StudyError, match="broke off"):
        fetch(task, tmp_path)
    site.cut_at = None
    fetch(task, tmp_path)
    assert (tmp_path / PATH).read_bytes() == CONTENT


def test_two_versions_of_a_file_are_never_mixed(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site, sha=None))
    site.tag, site.cut_at = '"old"', 1000
    with pytest.raises(StudyError, match="broke off"):
        fetch(task, tmp_path)
    newer = CONTENT[::-1]
    site.files["/made.csv"], site.tag, site.cut_at = newer, '"new"', None
    fetch(task, tmp_path)
    assert (tmp_path / PATH).read_bytes() == newer
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_hash_and_strong_tag_a_transfer_starts_afresh(site: Site, tmp_path: Path, tag: str | None) -> None:
    task = made_task(file_at(site, sha=None))
    site.tag, site.cut_at = tag, 1000
    with pytest.raises(StudyError, match="broke off"):
        fetch(task, tmp_path)
    site.cut_at = None
    fetch(task, tmp_path)
    assert [wanted for _, wanted in site.seen] == [None, None]
    assert (tmp_path / PATH).read_bytes() == CONTENT


def test_a_part_that_is_complete_or_too_long_is_settled(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    part = tmp_path / f"{PATH}.part"
    part.parent.mkdir(parents=True)
    for content in (CONTENT, CONTENT + b"more"):
        part.write_bytes(content)
        (tmp_path / PATH).unlink(missing_ok=True)
        fetch(task, tmp_path)
        assert (tmp_path / PATH).read_bytes() == CONTENT
    assert leftovers(tmp_path) == []


def test_a_wrong_hash_keeps_nothing_and_says_so(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site, sha=sha256(b"another file")))
    with pytest.raises(StudyError, match="does not have the declared hash; nothing was kept"):
        fetch(task, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_part_of_another_file_is_found_out_and_the_next_attempt_succeeds(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    part = tmp_path / f"{PATH}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1000)
    with pytest.raises(StudyError, match="declared hash"):
        fetch(task, tmp_path)
    fetch(task, tmp_path)
    assert (tmp_path / PATH).read_bytes() == CONTENT


def test_a_file_that_is_there_with_another_hash_is_not_replaced(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(b"mine")
    with pytest.raises(StudyError, match="move it away"):
        fetch(task, tmp_path)
    assert (tmp_path / PATH).read_bytes() == b"mine"
    assert site.seen == []


def test_a_server_that_lacks_the_file_is_quoted(site: Site, tmp_path: Path) -> None:
    file = DataFile(PATH, address=f"{site.address}/moved.csv")
    with pytest.raises(StudyError, match=r"moved\.csv: the server answers 404 Not Found"):
        fetch(made_task(file), tmp_path)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = DataFile(PATH, address=f"http://127.0.0.1:{port}/made.csv")
    with pytest.raises(StudyError, match="cannot be reached"):
        fetch(made_task(file), tmp_path)


def test_a_silent_server_is_given_up(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    site.silent = True
    with pytest.raises(StudyError, match=r"cannot be reached.*timed out"):
        fetch(task, tmp_path, timeout=0.05)


def test_a_length_that_nobody_announced_is_no_obstacle(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    site.announce_length = False
    fetch(task, tmp_path)
    assert (tmp_path / PATH).read_bytes() == CONTENT


@pytest.mark.parametrize("elsewhere", ["file:///etc/hostname", "ftp://127.0.0.1/made.csv"])
def test_no_redirection_leaves_http(site: Site, tmp_path: Path, elsewhere: str) -> None:
    task = made_task(file_at(site, sha=None))
    site.redirect = elsewhere
    with pytest.raises(StudyError, match=r"made\.csv: "):
        fetch(task, tmp_path)
    assert not (tmp_path / PATH).exists()


def test_other_addresses_than_http_cannot_be_declared() -> None:
    with pytest.raises(StudyError, match="must start with http"):
        DataFile(PATH, address="file:///etc/hostname")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_named_and_nothing_gets_the_final_name(site: Site, tmp_path: Path) -> None:
    task = made_task(file_at(site))
    part = tmp_path / f"{PATH}.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    with pytest.raises(StudyError, match=r"made\.csv\.part: cannot be written \(No space left.*make room"):
        fetch(task, tmp_path)
    assert not (tmp_path / PATH).exists()


def test_a_root_that_cannot_have_folders_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "General").write_bytes(b"a file where a folder must be")
    with pytest.raises(StudyError, match="cannot be made"):
        fetch(made_task(file_at(site)), tmp_path)


def test_without_an_address_the_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"no address is declared for General/Made/made\.csv; get it from https://example"
    ):
        fetch(made_task(DataFile(PATH)), tmp_path)


def test_a_bundled_set_without_address_needs_no_fetching(tmp_path: Path) -> None:
    assert fetch(made_task(DataFile(PATH), embedded="Made"), tmp_path) == []


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
