"""Rows on disk: a CSV file that grows by one row at a time, so that an interrupted run keeps what it has."""

import csv
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MACHINE = HERE.parent / "src" / "alphabet_ptx"
FOUND = ["launches", "steps", "races", "raced", "changed", "seconds", "reason", "digest"]
CASES = ["source", "version", "name", "outcome", "error", "worst", "tolerance", *FOUND]
TESTS = ["test", "outcome", *FOUND]


def digest(*files: Path) -> str:
    """What decides a row: the package as it is, the pins, and the files that declare the case."""
    content = hashlib.sha256()
    for path in [*sorted(MACHINE.glob("*.py")), HERE / "pins.txt", *files]:
        content.update(path.read_bytes())
    return content.hexdigest()[:12]


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if there is no file yet."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, columns: list[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file at once, so that it is whole at any time."""
    new = path.with_suffix(".new")
    with new.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)
