"""Evidence is appended whole or not at all, chained, and never mixed."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from alphabet_audit import AuditError
from alphabet_audit.evidence.canonical import GENESIS, encode, hash_of
from alphabet_audit.evidence.chain import MANIFEST, RECORDS, read_manifest, read_records
from alphabet_audit.evidence.store import Evidence
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ABOUT = {"version": 1, "kind": "ledger", "created": "now", "device": "cpu"}


def chain(payloads):
    lines, previous = [], GENESIS
    for index, payload in enumerate(payloads):
        lines.append(encode({"kind": "any", "index": index, "previous": previous, "payload": payload}))
        previous = hash_of(lines[-1])
    return lines


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_a_chain_reads_back_as_it_was_written(payloads):
    records = read_records(b"".join(line + b"\n" for line in chain(payloads)), "here")
    assert [record["payload"] for record in records] == json.loads(json.dumps(payloads))


@given(st.lists(VALUES, min_size=2, max_size=5), st.data())
def test_a_changed_byte_breaks_the_chain_or_the_head(payloads, data):
    lines = chain(payloads)
    content = b"".join(line + b"\n" for line in lines)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        records = read_records(bytes(changed), "here")
    except AuditError:
        return
    assert hash_of(encode(records[-1])) != hash_of(lines[-1])  # the last record is what the manifest's head is for


@given(st.lists(st.integers(), min_size=3, max_size=6, unique=True), st.data())
def test_a_lost_or_moved_record_breaks_the_chain(payloads, data):
    lines = chain(payloads)
    place = data.draw(st.integers(0, len(lines) - 2))
    for broken in (
        lines[:place] + lines[place + 1 :],
        [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]],
    ):
        with pytest.raises(AuditError, match="does not follow the line before"):
            read_records(b"".join(line + b"\n" for line in broken), "here")


def test_records_survive_and_the_manifest_names_their_head(tmp_path):
    with Evidence(tmp_path, ABOUT, {"designs.toml": b"x"}) as evidence:
        evidence.append("group", number=1)
        evidence.append("group", number=2)
        evidence.seal(finished=True)
    with Evidence(tmp_path, {**ABOUT, "created": "later"}, {}) as again:
        assert [record["number"] for record in again.records] == [1, 2]
        assert again.manifest["created"] == "now"
        assert read_manifest(tmp_path)["head"] == again.head
    assert (tmp_path / "designs.toml").read_bytes() == b"x"


@pytest.mark.parametrize("tail", [b"{", b'{"kind":"group"', b"\xff\x00"])
def test_a_torn_last_line_is_dropped_on_disk_too(tmp_path, tail):
    with Evidence(tmp_path, ABOUT, {}) as evidence:
        evidence.append("group", number=1)
    whole = (tmp_path / RECORDS).read_bytes()
    (tmp_path / RECORDS).write_bytes(whole + tail)
    with Evidence(tmp_path, ABOUT, {}) as evidence:
        assert len(evidence.records) == 1
        assert (tmp_path / RECORDS).read_bytes() == whole
        evidence.append("group", number=2)
    assert len(read_records((tmp_path / RECORDS).read_bytes(), "here")) == 2


def test_another_setup_is_never_mixed_in(tmp_path):
    Evidence(tmp_path, ABOUT, {}).close()
    with pytest.raises(AuditError, match="differs in device; two setups are never mixed"):
        Evidence(tmp_path, {**ABOUT, "device": "cuda"}, {})


def test_one_process_writes_at_a_time(tmp_path):
    with Evidence(tmp_path, ABOUT, {}), pytest.raises(AuditError, match="another process is writing"):
        Evidence(tmp_path, ABOUT, {})


def test_what_is_no_number_cannot_be_written(tmp_path):
    with Evidence(tmp_path, ABOUT, {}) as evidence:
        with pytest.raises(ValueError, match="JSON"):
            evidence.append("group", seconds=float("nan"))
        assert (tmp_path / RECORDS).read_bytes() == b""


def test_a_damaged_folder_is_said_so(tmp_path):
    with Evidence(tmp_path, ABOUT, {}) as evidence:
        evidence.append("group", number=1)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(AuditError, match="has records but no manifest"):
        Evidence(tmp_path, ABOUT, {})


def test_a_manifest_of_another_version_is_refused(tmp_path):
    (tmp_path / MANIFEST).write_text(json.dumps({**ABOUT, "version": 99}))
    with pytest.raises(AuditError, match="has version 99; this alphabet-audit reads versions 1 and 2"):
        read_manifest(tmp_path)


def test_a_full_disk_stops_the_run_and_leaves_whole_evidence(tmp_path):
    """The kernel refuses the rest of a write beyond the limit: a real torn write."""
    code = (
        "import sys, pathlib; from alphabet_audit.evidence.store import *; from alphabet_audit import AuditError\n"
        "import resource\n"
        f"evidence = Evidence(pathlib.Path(sys.argv[1]), {ABOUT!r}, {{}})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n"
        "    for n in range(100): evidence.append('group', number=n, filler='x' * 100)\n"
        "except AuditError as error:\n"
        "    print(len(evidence.records), error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    count, _, message = run.stdout.partition(" ")
    assert "Make room and run the same command: it resumes" in message
    assert len(read_records((tmp_path / RECORDS).read_bytes(), "here")) == int(count) > 3
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2000


def test_a_folder_that_cannot_be_written_is_said_so():
    with pytest.raises(AuditError, match="cannot be written"):
        Evidence(Path("/dev/null/run"), ABOUT, {})


def test_a_system_that_cannot_lock_says_so_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(AuditError, match=r"cannot lock a run's folder .*: run parity and ledger on Linux or macOS"):
        Evidence(tmp_path, ABOUT, {})
    assert list(tmp_path.iterdir()) == []
