"""Results as CSV, so that campaigns of several machines or evenings add up.

`fits.csv` is a plain table with one line per fit, in which numbers read back to the same bits; `fits.json` beside it is
the description, without which no fit is imported.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from alphabet_study.campaign.description import (
    Description,
    describe_records,
    description_path,
    json_of,
    read_description,
)
from alphabet_study.campaign.plan import check_seal
from alphabet_study.campaign.replacing import replaced
from alphabet_study.campaign.rows import COLUMNS, Row, csv_line, differences, record_of_texts, row_of, texts_of
from alphabet_study.campaign.store import Opening, Store
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, FINAL, STAGES, Cell, FitKey, Record
from alphabet_study.protocol.selection import expected_keys, freeze
from alphabet_study.protocol.settings import FAMILY_NAMES
from alphabet_study.registry.task import Task


class Exported(NamedTuple):
    """What an export holds: its description, and the records."""

    described: Description
    records: list[Record]


def export_csv(store: Store, path: Path) -> int:
    """Write all records of a store to a CSV file, and its description to the JSON file beside it.

    Each file is replaced as a whole. Returns the number of records.
    """
    records = sorted(store.records(), key=_order)
    described = describe_records(store, records)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(description_path(path)) as file:
            file.write(json_of(described))
        with replaced(path) as file:
            file.write(csv_line(COLUMNS))
            file.writelines(csv_line(texts_of(record)) for record in records)
    except OSError as error:
        raise StudyError(f"{path} cannot be written ({error.strerror}): check the folder and the space left") from error
    return len(records)


def read_csv(path: Path) -> Exported:
    """What an export holds; a malformed one is refused with line and column."""
    described = read_description(description_path(path))
    records: dict[FitKey, Record] = {}
    expected: dict[Cell, set[FitKey]] = {}
    for number, row in _numbered_rows(path):
        where = f"{path}, line {number}"
        record = record_of_texts(where, row)
        key = record.job.key
        if key in records:
            raise StudyError(f"{where}: {key} occurs twice; export the file again")
        if key.task not in described.data:
            raise StudyError(f"{where}: {description_path(path).name} has no digests of {key.task}'s data")
        if key.family not in FAMILY_NAMES:
            raise StudyError(f"{where}, column family: {key.family!r} is none of {', '.join(FAMILY_NAMES)}")
        if key.cell not in expected:
            expected[key.cell] = set(expected_keys(key.cell, described.settings))
        if key not in expected[key.cell]:
            raise StudyError(
                f"{where}: {key} is no fit of the settings {described.settings.name!r}: no plan has this stage with "
                f"slot {key.slot} and seed {key.seed}; export the file again"
            )
        records[key] = record
    if len(records) != described.fits:
        raise StudyError(
            f"{path} has {len(records):,} fits, but {description_path(path).name} beside it describes "
            f"{described.fits:,}: these files do not belong together, or lines were lost; export again"
        )
    return Exported(described, list(records.values()))


def import_csv(store: Store, path: Path, tasks: Mapping[str, Task] | None = None) -> int:
    """Add the records of an export that are new to a store; returns the number of them.

    Other settings, other data or a record that conflicts with a known one are refused, and then nothing is imported.
    A failed fit conflicts with nothing: it gives way to a finished one. tasks: where given, by name, every fit must be
    of one of these, and TEST opened and finals trained under what the selection of their cell froze, as far as its
    records are there.
    """
    exported = read_csv(path)
    openings = _openings(path, exported)
    planned = exported.described.planned
    cells = {record.job.key.cell for record in exported.records} | set(openings) | planned
    if tasks is not None:
        for cell in sorted(cells):
            if cell.task not in tasks:
                raise StudyError(
                    f"{path}: {cell}: there is no task {cell.task} here; use the version that wrote the export"
                )
    settings = exported.described.settings
    if settings.digest() != store.settings.digest():
        raise StudyError(
            f"{path}: its fits ran under other settings ({settings}) than those of {store.path} "
            f"({store.settings}); import it into a store of its own"
        )
    known = {record.job.key: row_of(record) for record in store.records()}
    added = 0
    with store.transaction():
        _add_digests(store, path, exported.described)
        store.note_planned(planned)
        for cell, opening in openings.items():
            store.note_opening(cell, opening)
        for record in exported.records:
            _check_agreement(store, path, known.get(record.job.key), record)
            added += store.add(record)
        if tasks is not None:
            _check_seals(store, cells, tasks)
    return added


def _check_seals(store: Store, cells: set[Cell], tasks: Mapping[str, Task]) -> None:
    settings, outcomes, openings = store.settings, store.outcomes(cells), store.openings()
    for cell in sorted(cells):
        selection = [key for key in expected_keys(cell, settings) if key.stage != FINAL]
        if all(key in outcomes and outcomes[key][1].status != FAILED for key in selection):
            check_seal(cell, tasks[cell.task], settings, outcomes)
            if cell in openings:
                frozen = freeze(cell, tasks[cell.task], settings, outcomes)
                given = (frozen.digest(), frozen.candidate, frozen.epochs)
                if openings[cell][:3] != given:
                    raise StudyError(
                        f"{cell}: TEST was opened under the frozen configuration {openings[cell][:3]}, but the "
                        f"selection gives {given}: records of different campaigns were mixed. Nothing was imported"
                    )


def _add_digests(store: Store, path: Path, described: Description) -> None:
    known = store.data_digests()
    for task, digests in described.data.items():
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


def _openings(path: Path, exported: Exported) -> dict[Cell, Opening]:
    """The openings of TEST that the description names or that finals prove, dated by the earliest of them."""
    found: dict[Cell, Opening] = {}
    for record in sorted(exported.records, key=lambda record: record.finished):
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
    for cell, opening in exported.described.openings.items():
        if cell in found and found[cell][:3] != opening[:3]:
            raise StudyError(
                f"{path}: the finals of {cell} were trained under {found[cell].frozen}, but "
                f"{description_path(path).name} says that TEST was opened under {opening.frozen}: these files do not "
                "belong together; export again"
            )
    return found | exported.described.openings


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


def _order(record: Record) -> tuple[str, str, int, int, int]:
    key = record.job.key
    return key.task, key.family, STAGES.index(key.stage), key.slot, key.seed
