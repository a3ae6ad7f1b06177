"""Evidence on disk: an append-only file of chained records, and a manifest that names its head.

A record is one line of canonical JSON that carries its number and the sha256 of the line before. It is written by one
call and synced before the run goes on, so that a kill leaves at most one torn line at the end, which is dropped.
"""

import fcntl
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from alphabet_audit.errors import AuditError

Record = dict[str, Any]
VERSION = 1
RECORDS, MANIFEST = "evidence.jsonl", "manifest.json"
GENESIS = "0" * 64  # what the first record carries in place of a hash
# What the manifest says of the records; all else in it is settled before the first one.
MOVING = ("head", "records", "finished")


def encode(value: object) -> bytes:
    """Canonical JSON: one way to write a value, and no way to write NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def hash_of(content: bytes) -> str:
    """sha256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def identity_of(manifest: Record) -> str:
    """The hash of all that was settled before the first record, which carries it."""
    return hash_of(encode({name: value for name, value in manifest.items() if name not in MOVING}))


def read_records(content: bytes, source: str) -> list[Record]:
    """All records of a file whose chain holds, or an error that names the first line that breaks it."""
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
    """A run's manifest, of a version that this code can read."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes(), parse_constant=refuse_constant)
    except OSError as error:
        raise AuditError(f"{path} cannot be read ({error.strerror}): {folder} is not the folder of a run") from error
    except ValueError as error:
        raise AuditError(f"{path} is not JSON: {folder} is damaged") from error
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        found = manifest.get("version") if isinstance(manifest, dict) else None
        raise AuditError(
            f"{path} has version {found!r}; this alphabet-audit reads version {VERSION}: use the other one"
        )
    return manifest


def refuse_constant(name: str) -> None:
    """NaN and Infinity, which Python would read."""
    raise ValueError(f"{name} is no JSON")


class Evidence:
    """A run's folder, open for appending; `records` are those it has. One process at a time.

    `manifest` describes a new run. A folder that has a run already goes on with it, if its manifest says the same.
    """

    def __init__(self, folder: Path, manifest: Record, copies: dict[str, bytes]) -> None:
        self.folder = folder
        manifest = json.loads(encode(manifest))  # as it will be read back: no tuples
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / RECORDS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise AuditError(f"{folder} cannot be written ({error.strerror}); choose another --out") from error
        try:
            self._lock()
            self.resumed = (folder / MANIFEST).exists()
            self.manifest = self._same_run(manifest) if self.resumed else self._new_run(manifest, copies)
            self.records = read_records(self._read_back(), str(folder / RECORDS))
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
        """Release the file; the manifest's head is as new as the last `seal`."""
        os.close(self._file)

    @property
    def head(self) -> str:
        """The hash of the last record."""
        return hash_of(encode(self.records[-1])) if self.records else GENESIS

    def append(self, kind: str, **fields: Any) -> Record:
        """Write one record, wholly and durably, or leave the file as it was."""
        record = {"kind": kind, "index": len(self.records), "previous": self.head, **fields}
        line = encode(record) + b"\n"
        length = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(0, "only a part of it fits")
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # on a device that cannot be truncated nothing was written either
                os.ftruncate(self._file, length)
            raise AuditError(
                f"a record could not be written to {self.folder / RECORDS} ({error.strerror}); all before it is whole. "
                "Make room and run the same command: it resumes"
            ) from error
        self.records.append(record)
        return record

    def seal(self, *, finished: bool) -> None:
        """Let the manifest name the head."""
        moving = {"head": self.head, "records": len(self.records), "finished": finished}
        self.manifest = {**self.manifest, **moving}
        write_whole(self.folder / MANIFEST, json.dumps(self.manifest, indent=1, sort_keys=True).encode() + b"\n")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AuditError(
                f"another process is writing to {self.folder}; wait for it or choose another --out"
            ) from error

    def _new_run(self, manifest: Record, copies: dict[str, bytes]) -> Record:
        if os.fstat(self._file).st_size:
            raise AuditError(f"{self.folder} has records but no {MANIFEST}: it is damaged; choose another --out")
        for name, content in copies.items():
            write_whole(self.folder / name, content)
        self.manifest, self.records = manifest, []
        self.seal(finished=False)
        return self.manifest

    def _same_run(self, manifest: Record) -> Record:
        found = read_manifest(self.folder)
        changed = [name for name in manifest if name not in ("created", *MOVING) and found.get(name) != manifest[name]]
        if changed:
            raise AuditError(
                f"{self.folder} holds a run that differs in {', '.join(changed)}; two setups are never mixed: "
                "choose another --out, or repeat the command of that run in its environment"
            )
        return found

    def _read_back(self) -> bytes:
        """The file without a torn last line, which is cut off on disk too."""
        content = (self.folder / RECORDS).read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
            os.fsync(self._file)
        return content[:whole]


def write_whole(path: Path, content: bytes) -> None:
    """A file that is either the old one or the new one, at any moment."""
    draft = path.with_name(path.name + ".draft")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise AuditError(f"{path} could not be written ({error.strerror}); make room and try again") from error
