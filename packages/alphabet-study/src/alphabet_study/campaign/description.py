"""The description of an export, a JSON file beside the CSV file.

It says under which settings and on which data the fits ran, so that nothing else is ever mixed with them; for which
cells TEST was opened, so that it is never opened twice; and which cells were planned, so that those that never began
are missed wherever the export is imported.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alphabet_study.campaign.rows import LARGEST_INTEGER
from alphabet_study.campaign.store import Opening, Store
from alphabet_study.campaign.store_file import settings_of
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import Cell, Record
from alphabet_study.protocol.settings import FAMILY_NAMES, Settings

FORMAT = "alphabet-study fits 1"
PARTS = {"train", "test"}


@dataclass(frozen=True)
class Description:
    """What the JSON file of an export says: settings, digests of the data by task and part, and the number of fits.

    openings and planned: those of the store; exports of earlier versions name none.
    """

    settings: Settings
    data: dict[str, dict[str, str]]
    fits: int
    openings: dict[Cell, Opening]
    planned: set[Cell]


def describe_records(store: Store, records: Sequence[Record]) -> Description:
    """The description of a store's records. They must have been read before, so that no final lacks its opening."""
    openings = store.openings()
    tasks = {record.job.key.task for record in records} | {cell.task for cell in openings}
    data = {task: digests for task, digests in store.data_digests().items() if task in tasks}
    return Description(store.settings, data, len(records), openings, store.planned())


def description_path(path: Path) -> Path:
    """The JSON file that belongs to a CSV file."""
    if path.suffix != ".csv":
        raise StudyError(f"{path}: the name of an export must end in .csv")
    return path.with_suffix(".json")


def json_of(described: Description) -> str:
    """The text of a JSON file from which `read_description` gives the same."""
    values = {
        "format": FORMAT,
        "fits": described.fits,
        "settings": asdict(described.settings),
        "settings_digest": described.settings.digest(),
        "data": described.data,
        "openings": [asdict(cell) | opening._asdict() for cell, opening in described.openings.items()],
        "planned": [asdict(cell) for cell in sorted(described.planned)],
    }
    return json.dumps(values, indent=1) + "\n"


def read_description(path: Path) -> Description:
    """What the JSON file of an export says; a malformed one is refused with the entry at fault."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}, not {FORMAT!r}")
        data = found["data"]
        for task, digests in data.items():
            if digests.keys() != PARTS or not all(map(_is_text, (task, *digests.values()))):
                raise ValueError(f"data of {task} must have a digest of each of train and test; got {digests}")
        settings, count = settings_of(found["settings"]), int(found["fits"])
        for family in FAMILY_NAMES:
            settings.candidates(family)  # fails if the settings name shapes that no family has
        openings = _read_openings(found.get("openings", []), data)
        planned = _read_planned(found.get("planned", []))
    except FileNotFoundError:
        raise StudyError(
            f"{path} is missing: it says under which settings and on which data the fits of {path.stem}.csv ran; copy "
            "both files that `alphabet-study export` wrote"
        ) from None
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise StudyError(
            f"{path} does not describe an export ({type(error).__name__}: {error}); export again"
        ) from error
    return Description(settings, data, count, openings, planned)


def _read_openings(listed: Any, data: Mapping[str, object]) -> dict[Cell, Opening]:
    """The openings of a description by cell; ValueError says what is wrong with which."""
    openings: dict[Cell, Opening] = {}
    for fields in listed:
        cell, opening = Cell(fields["task"], fields["family"]), Opening(*(fields[name] for name in Opening._fields))
        if cell.task not in data or cell.family not in FAMILY_NAMES or cell in openings:
            raise ValueError(f"openings: {cell} has no digests of its data, no known family, or occurs twice")
        if not all(map(_is_text, opening[:2])) or not (opening.opened == "" or _is_text(opening.opened)):
            raise ValueError(f"openings: {cell} must have texts as frozen, candidate and opened; got {fields}")
        if opening.epochs is not None and (type(opening.epochs) is not int or abs(opening.epochs) > LARGEST_INTEGER):
            raise ValueError(f"openings: epochs of {cell} must be an integer of 64 bits or null; got {fields}")
        openings[cell] = opening
    return openings


def _read_planned(listed: Any) -> set[Cell]:
    """The planned cells of a description; ValueError says what is wrong with which."""
    planned: set[Cell] = set()
    for fields in listed:
        cell = Cell(fields["task"], fields["family"])
        if not _is_text(cell.task) or cell.family not in FAMILY_NAMES or cell in planned:
            raise ValueError(f"planned: {cell} has no name of a task, no known family, or occurs twice")
        planned.add(cell)
    return planned


def _is_text(value: object) -> bool:
    """Whether a value is text that a store can keep and that says something."""
    return isinstance(value, str) and value != "" and value.isprintable()
