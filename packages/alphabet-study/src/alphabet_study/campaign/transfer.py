"""Results as CSV, so that campaigns of several machines or evenings add up.

`fits.csv` is a plain table with one line per fit, in which numbers read back to the same bits; `fits.json` beside it
says under which settings and on which data those fits ran, so that nothing else is ever mixed with them.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alphabet_study.campaign.plan import check_seal
from alphabet_study.campaign.replacing import replaced
from alphabet_study.campaign.rows import COLUMNS, FLOATS, INTEGERS, Row, differences, record_of, row_of
from alphabet_study.campaign.store import Opening, Store, settings_of
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DIVERGED, DONE, FAILED, FINAL, STAGES, Cell, FitKey, Record
from alphabet_study.protocol.selection import expected_keys
from alphabet_study.protocol.settings import Settings
from alphabet_study.registry.task import Task

FORMAT = "alphabet-study fits 1"
REQUIRED = ("task", "family", "stage", "slot", "seed", "candidate", "status", "test", "seconds")
CHOICES = {"stage": STAGES, "status": (DONE, DIVERGED, FAILED)}


@dataclass(frozen=True)
class Exported:
    """What an export holds: the settings, the digests of the data by task and part, and the records."""

    settings: Settings
    data: dict[str, dict[str, str]]
    records: list[Record]


def export_csv(store: Store, path: Path) -> int:
    """Write all records of a store to a CSV file, and its description to the JSON file beside it.

    Each file is replaced as a whole. Returns the number of records.
    """
    records = sorted(store.records(), key=_order)
    tasks = {record.job.key.task for record in records}
    description = {
        "format": FORMAT,
        "fits": len(records),
        "settings": asdict(store.settings),
        "settings_digest": store.settings.digest(),
        "data": {task: digests for task, digests in store.data_digests().items() if task in tasks},
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(description_path(path)) as file:
            file.write(json.dumps(description, indent=1) + "\n")
        with replaced(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for record in records:
                row = row_of(record)
                writer.writerow([_text(row[name]) for name in COLUMNS])
    except OSError as error:
        raise StudyError(f"{path} cannot be written ({error.strerror}): check the folder and the space left") from error
    return len(records)


def description_path(path: Path) -> Path:
    """The JSON file that belongs to a CSV file."""
    if path.suffix != ".csv":
        raise StudyError(f"{path}: the name of an export must end in .csv")
    return path.with_suffix(".json")


def read_csv(path: Path) -> Exported:
    """What an export holds; a malformed one is refused with line and column."""
    settings, data, count = _read_description(description_path(path))
    records: dict[FitKey, Record] = {}
    for number, row in _numbered_rows(path):
        record = _read_row(f"{path}, line {number}", row)
        key = record.job.key
        if key in records:
            raise StudyError(f"{path}, line {number}: {key} occurs twice; export the file again")
        if key.task not in data:
            raise StudyError(
                f"{path}, line {number}: {description_path(path).name} has no digests of {key.task}'s data"
            )
        records[key] = record
    if len(records) != count:
        raise StudyError(
            f"{path} has {len(records):,} fits, but {description_path(path).name} beside it describes {count:,}: these "
            "files do not belong together, or lines were lost; export again"
        )
    return Exported(settings, data, list(records.values()))


def import_csv(store: Store, path: Path, tasks: Mapping[str, Task] | None = None) -> int:
    """Add the records of an export that are new to a store; returns the number of them.

    Other settings, other data or a record that conflicts with a known one are refused, and then nothing is imported.
    A failed fit conflicts with nothing: it gives way to a finished one. tasks: where given, by name, finals must also
    have been trained under what the selection of their cell froze, as far as its records are there.
    """
    exported = read_csv(path)
    if exported.settings.digest() != store.settings.digest():
        raise StudyError(
            f"{path}: its fits ran under other settings ({exported.settings}) than those of {store.path} "
            f"({store.settings}); import it into a store of its own"
        )
    known = {record.job.key: row_of(record) for record in store.records()}
    added = 0
    with store.transaction():
        _add_digests(store, path, exported)
        for cell, opening in _openings(path, exported.records).items():
            store.note_opening(cell, opening)
        for record in exported.records:
            _check_agreement(store, path, known.get(record.job.key), record)
            added += store.add(record)
        if tasks is not None:
            _check_seals(store, {record.job.key.cell for record in exported.records}, tasks)
    return added


def _check_seals(store: Store, cells: set[Cell], tasks: Mapping[str, Task]) -> None:
    settings, outcomes = store.settings, store.outcomes(cells)
    for cell in sorted(cells):
        if cell.task not in tasks:
            raise StudyError(f"{cell}: there is no task {cell.task} here; use the version that wrote the export")
        selection = [key for key in expected_keys(cell, settings) if key.stage != FINAL]
        if all(key in outcomes and outcomes[key][1].status != FAILED for key in selection):
            check_seal(cell, tasks[cell.task], settings, outcomes)


def _add_digests(store: Store, path: Path, exported: Exported) -> None:
    known = store.data_digests()
    for task, digests in exported.data.items():
        for part, digest in digests.items():
            here = known.get(task, {}).get(part, digest)
            if here != digest:
                raise StudyError(
                    f"{path}: its fits of {task} ran on other data than those of {store.path}: digest of "
                    f"{part.upper()} {digest} there, {here} here. Nothing was imported"
                )
        store.check_data(task, digests)


def _check_agreement(store: Store, path: Path, known: Row | None, record: Record) -> None:
    if known is None or FAILED in (known["status"], record.outcome.status):
        return
    differing = differences(known, row_of(record))
    if differing:
        raise StudyError(
            f"{record.job.key}: {store.path} and {path} disagree: {'; '.join(differing)}. Nothing was imported; "
            "results of one fit from different processors or versions cannot be mixed"
        )


def _openings(path: Path, records: list[Record]) -> dict[Cell, Opening]:
    """The openings of TEST that finals prove, dated by the earliest of them."""
    found: dict[Cell, Opening] = {}
    for record in sorted(records, key=lambda record: record.finished):
        job = record.job
        if job.key.stage == FINAL:
            if job.frozen is None:
                raise StudyError(f"{path}: {job.key} does not say under which frozen configuration it was trained")
            opening = found.setdefault(job.key.cell, Opening(job.frozen, job.candidate, job.epochs, record.finished))
            if opening[:3] != (job.frozen, job.candidate, job.epochs):
                raise StudyError(
                    f"{path}: the finals of {job.key.cell} were trained under different configurations: "
                    f"{opening.frozen} and {job.frozen}; TEST is opened once only"
                )
    return found


def _read_description(path: Path) -> tuple[Settings, dict[str, dict[str, str]], int]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}, not {FORMAT!r}")
        data = {
            str(task): {str(part): str(digests[part]) for part in digests} for task, digests in found["data"].items()
        }
        settings, count = settings_of(found["settings"]), int(found["fits"])
    except FileNotFoundError:
        raise StudyError(
            f"{path} is missing: it says under which settings and on which data the fits of {path.stem}.csv ran; copy "
            "both files that `alphabet-study export` wrote"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StudyError(
            f"{path} does not describe an export ({type(error).__name__}: {error}); export again"
        ) from error
    return settings, data, count


def _numbered_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, each with the number of its first line."""
    number = 1
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if tuple(header) != COLUMNS:
                raise StudyError(
                    f"{path}, line 1: the header must be {','.join(COLUMNS)}; got {','.join(header)[:200]!r}"
                )
            number = reader.line_num + 1
            for row in reader:
                yield number, row
                number = reader.line_num + 1
    except csv.Error as error:
        raise StudyError(f"{path}, line {number}: not a line of CSV ({error}); export the file again") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read ({error}): name a file that `alphabet-study export` wrote") from error


def _read_row(where: str, row: list[str]) -> Record:
    if len(row) != len(COLUMNS):
        raise StudyError(f"{where}: {len(row)} columns found, {len(COLUMNS)} expected; export the file again")
    values: Row = {}
    for name, text in zip(COLUMNS, row, strict=True):
        try:
            values[name] = _value(name, text)
        except ValueError as error:
            raise StudyError(f"{where}, column {name}: {text!r} is not understood: {error}; export again") from error
    return record_of(values)


def _value(name: str, text: str) -> str | int | float | None:
    if text == "":
        if name in REQUIRED:
            raise ValueError("it must not be empty")
        return "" if name in ("finished", "machine", "sources") else None
    if name in INTEGERS:
        return int(text)
    if name in FLOATS:
        return float(text)
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"it must be one of {', '.join(CHOICES[name])}")
    if name == "test" and not isinstance(json.loads(text), dict):
        raise ValueError("it must be a JSON object of metrics")
    return text


def _text(value: object) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _order(record: Record) -> tuple[str, str, int, int, int]:
    key = record.job.key
    return key.task, key.family, STAGES.index(key.stage), key.slot, key.seed
