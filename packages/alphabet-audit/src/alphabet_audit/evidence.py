"""Evidence on disk: an append-only file of chained records, and a manifest that names the hash of the last one.

A record is one line of canonical JSON that carries its number and the sha256 of the line before. It is written by one
call and synced before the run goes on, so that a kill leaves at most one torn line at the end, which is dropped.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from alphabet_audit.errors import AuditError

Record = dict[str, Any]
VERSION = 1
RECORDS, MANIFEST = "evidence.jsonl", "manifest.json"
GENESIS = "0" * 64  # what the first record carries in place of a hash
BINARY: int = getattr(os, "O_BINARY", 0)  # on Windows, or line ends would be changed
# The manifest's fields that sealing sets; all others are settled before the first record.
SEALED_FIELDS = ("head", "records", "finished")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: object) -> bytes:
    """A value as canonical JSON, in which there is one way to write it, and no way to write NaN."""
    return _CANONICAL.encode(value).encode()


def hash_of(content: bytes) -> str:
    """The sha256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def identity_of(manifest: Record) -> str:
    """The hash of everything in a manifest that was settled before the first record, which carries this hash."""
    return hash_of(encode({name: value for name, value in manifest.items() if name not in SEALED_FIELDS}))


def read_records(content: bytes, source: str) -> list[Record]:
    """The records in a file's content; an error names the first line at which their chain breaks."""
    records: list[Record] = []
    previous = GENESIS
    lines = content.split(b"\n")
    if lines.pop() != b"":
        raise AuditError(f"{source} ends in the middle of a record: the file is truncated")
    for number, line in enumerate(lines):
        where = f"{source}, line {number + 1}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise AuditError(f"{where} is not JSON: the file was damaged or edited") from error
        if not isinstance(record, dict) or not _is_canonical(record, line):
            raise AuditError(f"{where} is not as it was written: the file was damaged or edited")
        if record.get("index") != number or record.get("previous") != previous:
            raise AuditError(f"{where} does not follow the line before: a record was edited, moved, added or lost")
        records.append(record)
        previous = hash_of(line)
    return records


def _is_canonical(record: Record, line: bytes) -> bool:
    try:
        return encode(record) == line
    except ValueError:  # NaN, which json reads and we never write
        return False


def read_manifest(folder: Path) -> Record:
    """The manifest of the run in a folder."""
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AuditError(f"{path} cannot be read ({error.strerror}): {folder} is not the folder of a run") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, source: str) -> Record:
    """The manifest in a file's content, if it is of a version that this code reads; `source` names the file."""
    try:
        manifest = json.loads(content, parse_constant=refuse_constant)
    except ValueError as error:
        raise AuditError(f"{source} is not JSON: the file was damaged or edited") from error
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        found = manifest.get("version") if isinstance(manifest, dict) else None
        raise AuditError(
            f"{source} has version {found!r}; this alphabet-audit reads version {VERSION}: use one that reads the other"
        )
    return manifest


def refuse_constant(name: str) -> None:
    """Raise for NaN and Infinity, which Python's json would read."""
    raise ValueError(f"{name} is not JSON")


def find_lock() -> Callable[[int, Path], None]:
    """A function that locks an open file of a run's folder; an error where the system has none."""
    try:
        import fcntl  # which Windows lacks; reading evidence does not need it
    except ImportError as error:
        raise AuditError(
            "this system cannot lock a run's folder (Python has no fcntl here): run parity and ledger on Linux or "
            "macOS; evaluate, report and compare work everywhere"
        ) from error

    def lock(file: int, folder: Path) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AuditError(f"another process is writing to {folder}; wait for it or choose another --out") from error

    return lock


class Evidence:
    """A run's folder, open for appending by one process at a time.

    manifest: describes the run; a folder that holds a run already goes on with it, if its manifest says the same.
    copies: files that a new run keeps beside its evidence. sync: makes what was written to a file durable.
    """

    def __init__(
        self, folder: Path, manifest: Record, copies: dict[str, bytes], sync: Callable[[int], None] = os.fsync
    ) -> None:
        self.folder = folder
        self._sync = sync
        manifest = json.loads(encode(manifest))  # as it will be read back: no tuples
        lock = find_lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / RECORDS, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o644)
        except OSError as error:
            raise AuditError(f"{folder} cannot be written ({error.strerror}); choose another --out") from error
        try:
            lock(self._file, folder)
            self.resumed = (folder / MANIFEST).exists()
            self.manifest = self._same_run(manifest) if self.resumed else self._new_run(manifest, copies)
            self.records = read_records(self._read_back(), str(folder / RECORDS))
            self.head = hash_of(encode(self.records[-1])) if self.records else GENESIS
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the file. The manifest names the record that was last when `seal` was last called."""
        os.close(self._file)

    def append(self, kind: str, **fields: Any) -> Record:
        """Write one record, wholly and durably, or leave the file as it was; returns the record."""
        record = {"kind": kind, "index": len(self.records), "previous": self.head, **fields}
        line = encode(record)
        length = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line + b"\n") != len(line) + 1:
                raise OSError(0, "only a part of it fits")
            self._sync(self._file)
        except OSError as error:
            with suppress(OSError):  # on a device that cannot be truncated nothing was written either
                os.ftruncate(self._file, length)
            raise AuditError(
                f"a record could not be written to {self.folder / RECORDS} ({error.strerror}); "
                "all records before it are whole. Make room and run the same command: it resumes"
            ) from error
        self.records.append(record)
        self.head = hash_of(line)
        return record

    def seal(self, *, finished: bool) -> None:
        """Let the manifest name the hash of the last record, the number of records, and whether the run is finished."""
        sealed = {"head": self.head, "records": len(self.records), "finished": finished}
        self.manifest = {**self.manifest, **sealed}
        content = json.dumps(self.manifest, indent=1, sort_keys=True).encode() + b"\n"
        write_whole(self.folder / MANIFEST, content, self._sync)

    def _new_run(self, manifest: Record, copies: dict[str, bytes]) -> Record:
        if os.fstat(self._file).st_size:
            raise AuditError(f"{self.folder} has records but no {MANIFEST}: it is damaged; choose another --out")
        for name, content in copies.items():
            write_whole(self.folder / name, content, self._sync)
        self.manifest, self.records, self.head = manifest, [], GENESIS
        self.seal(finished=False)
        return self.manifest

    def _same_run(self, manifest: Record) -> Record:
        found = read_manifest(self.folder)
        settled = [name for name in manifest if name not in ("created", *SEALED_FIELDS)]
        changed = [name for name in settled if found.get(name) != manifest[name]]
        if changed:
            raise AuditError(
                f"{self.folder} holds a run that differs in {', '.join(changed)}; two setups are never mixed: "
                "choose another --out, or repeat that run's command in its environment"
            )
        return found

    def _read_back(self) -> bytes:
        """The file's content without a torn last line, which is cut off on disk too."""
        content = (self.folder / RECORDS).read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
            self._sync(self._file)
        return content[:whole]


def write_whole(path: Path, content: bytes, sync: Callable[[int], None] = os.fsync) -> None:
    """Write a file so that at any moment it is either the old one or the new one, whole."""
    draft = path.with_name(path.name + ".draft")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise AuditError(f"{path} could not be written ({error.strerror}); make room and try again") from error
