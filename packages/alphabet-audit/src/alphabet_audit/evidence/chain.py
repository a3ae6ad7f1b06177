"""Records and manifest as they are read: each record carries its number and the sha256 of the line before."""

import json
import math
from pathlib import Path
from typing import Any

from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.canonical import GENESIS, Record, encode, hash_of
from alphabet_audit.evidence.files import read_bounded

VERSION = 2  # which runs write; version 1 is read and judged by every rule that its fields allow
READABLE = (1, 2)
RECORDS, MANIFEST = "evidence.jsonl", "manifest.json"
# A whole ledger takes some 2 MB and 50 kB.
LARGEST_RECORDS, LARGEST_MANIFEST = 1 << 28, 1 << 24
# The manifest's fields that sealing sets; all others are settled before the first record.
SEALED_FIELDS = ("head", "records", "finished")


def identity_of(manifest: Record) -> str:
    """The hash of everything in a manifest that was settled before the first record, which carries this hash."""
    return hash_of(encode({name: value for name, value in manifest.items() if name not in SEALED_FIELDS}))


def read_run(folder: Path) -> tuple[Record, list[Record]]:
    """The manifest and the records of the run in a folder; an error if they cannot be read or their chain breaks."""
    manifest = read_manifest(folder)
    return manifest, read_records(read_bounded(folder / RECORDS, LARGEST_RECORDS), str(folder / RECORDS))


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
        except (ValueError, RecursionError) as error:
            raise AuditError(f"{where} is not JSON: the file was damaged or edited") from error
        if not isinstance(record, dict) or not _is_canonical(record, line):
            raise AuditError(f"{where} is not as it was written: the file was damaged or edited")
        index = record.get("index")
        if type(index) is not int or index != number or record.get("previous") != previous:
            raise AuditError(f"{where} does not follow the line before: a record was edited, moved, added or lost")
        records.append(record)
        previous = hash_of(line)
    return records


def _is_canonical(record: Record, line: bytes) -> bool:
    try:
        return encode(record) == line
    except (ValueError, RecursionError):  # NaN, which json reads and we never write
        return False


def read_manifest(folder: Path) -> Record:
    """The manifest of the run in a folder."""
    path = folder / MANIFEST
    try:
        content = read_bounded(path, LARGEST_MANIFEST)
    except AuditError as error:
        raise AuditError(f"{error}: {folder} is not the folder of a run") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, source: str) -> Record:
    """The manifest in a file's content, if it is of a version that this code reads; `source` names the file."""
    try:
        manifest = json.loads(
            content, parse_constant=refuse_constant, parse_float=read_float, object_pairs_hook=refuse_doubles
        )
        encode(manifest)  # what cannot be written, such as half of a surrogate pair, was not written by us
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{source} is not JSON: the file was damaged or edited ({printable(error)})") from error
    if not isinstance(manifest, dict):
        raise AuditError(f"{source} is no manifest: {printable(manifest)}")
    require_version(manifest, source)
    return manifest


def require_version(manifest: Record, source: str) -> None:
    """Raise unless a manifest is of a version that this code reads."""
    found = manifest.get("version")
    if type(found) is not int or found not in READABLE:
        readable = " and ".join(map(str, READABLE))
        raise AuditError(
            f"{source} has version {printable(found)}; this alphabet-audit reads versions {readable}: "
            "use one that reads the other"
        )


def refuse_constant(name: str) -> None:
    """Raise for NaN and Infinity, which Python's json would read."""
    raise ValueError(f"{name} is not JSON")


def read_float(text: str) -> float:
    """A number that is finite: 1e999 would be read as infinity."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of pairs; an error if a name is there twice, of which readers would see one or the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {printable(double)} is there twice")
    return found
