"""Fetching against a real server on this machine, with all that goes wrong between two machines."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from alphabet_study.errors import StudyError
from alphabet_study.fetching import fetch
from alphabet_study.registry.task import DataFile
from alphabet_testing.study_site import CONTENT, PATH, Site, file_at, made_task, serve, sha256


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


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
