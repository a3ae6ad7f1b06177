"""Records and manifest as they are read: each record carries its number and the sha256 of the line before."""

import json
from pathlib import Path

from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, Record, encode, hash_of

VERSION = 1
RECORDS, MANIFEST = "evidence.jsonl", "manifest.json"
# The manifest's fields that sealing sets; all others are settled before the first record.
SEALED_FIELDS = ("head", "records", "finished")


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
