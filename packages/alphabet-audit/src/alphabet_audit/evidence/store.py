"""Evidence on disk: an append-only file of chained records, and a manifest that names the hash of the last one.

A record is one line of canonical JSON that carries its number and the sha256 of the line before. It is written by one
call and synced before the run goes on, so that a kill leaves at most one torn line at the end, which is dropped.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, Record, encode, hash_of
from alphabet_audit.evidence.chain import LARGEST_RECORDS, MANIFEST, RECORDS, SEALED_FIELDS, read_manifest, read_records
from alphabet_audit.evidence.files import BINARY, NOFOLLOW, read_bounded, write_whole


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
            self._file = os.open(folder / RECORDS, os.O_RDWR | os.O_CREAT | os.O_APPEND | NOFOLLOW | BINARY, 0o644)
        except OSError as error:
            raise AuditError(f"{folder} cannot be written ({error.strerror}); choose another --out") from error
        try:
            lock(self._file, folder)
            self.resumed = (folder / MANIFEST).exists()
            self.manifest = self._same_run(manifest) if self.resumed else self._new_run(manifest, copies)
            self.records = read_records(self._read_back(), str(folder / RECORDS))
            self.head = hash_of(encode(self.records[-1])) if self.records else GENESIS
            self._require_sealed_records()
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

    def _require_sealed_records(self) -> None:
        """Raise unless the records reach the number and the hash that the manifest was last sealed with.

        A run that was not finished may have more of them; one that was finished has exactly as many.
        """
        sealed, head, finished = (self.manifest.get(name) for name in ("records", "head", "finished"))
        known = type(sealed) is int and 0 <= sealed <= len(self.records)
        found = hash_of(encode(self.records[sealed - 1])) if known and sealed else GENESIS
        if not known or found != head or (finished is not False and sealed != len(self.records)):
            raise AuditError(
                f"{self.folder} has {len(self.records)} records that are not the {sealed} it was sealed with: "
                "records were cut off, edited or added, so it is not resumed; choose another --out"
            )

    def _read_back(self) -> bytes:
        """The file's content without a torn last line, which is cut off on disk too."""
        content = read_bounded(self.folder / RECORDS, LARGEST_RECORDS)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
            self._sync(self._file)
        return content[:whole]
