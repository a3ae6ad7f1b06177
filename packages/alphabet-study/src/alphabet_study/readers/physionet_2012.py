"""PhysioNet 2012: 48 hours of intensive care per record, and whether the patient died in hospital.

TRAIN is Set A and TEST is Set C, each an archive of records (`set-a.tar.gz`) and a table of outcomes
(`Outcomes-a.txt`). A record is a list of (hh:mm, parameter, value). As in the paper, the original minutes are kept:
each distinct minute is one step, without binning or forward filling; a measurement without a name is ignored, minute
included; an unknown name is refused; what lies beyond 208 steps is cut off at the end (Set A has at most 203).

What the paper leaves open:
- The 37 channels are the challenge's time series, Weight among them. Of the six descriptors at 00:00, RecordID names
  the record, Weight is the first value of its series, and Age, Gender, Height and ICUType are not used. The minute
  00:00 is a step in every record, so the few records without any measurement are one step with nothing observed.
- Of several values of a channel in one minute the last one counts.
- The challenge marks a missing or invalid value by -1, in descriptors and in series; it is not an observation.
- Time is in hours.
"""

import re
from pathlib import Path

import numpy as np
import torch
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.archives import read_tar
from alphabet_study.readers.numbers import UnreadableNumberError, read_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, read_bytes
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

STEPS = 208
CHANNELS = (
    "ALP", "ALT", "AST", "Albumin", "BUN", "Bilirubin", "Cholesterol", "Creatinine", "DiasABP", "FiO2", "GCS",
    "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP", "MechVent", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na",
    "PaCO2", "PaO2", "Platelets", "RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC",
    "Weight", "pH",
)  # fmt: skip
DESCRIPTORS = ("RecordID", "Age", "Gender", "Height", "ICUType")
CLASSES = ("0", "1")

_NAMELESS, _DESCRIPTOR, _UNKNOWN = -1, -2, -3
_KINDS = {name.encode(): position for position, name in enumerate(CHANNELS)}
_KINDS |= {b"": _NAMELESS} | {name.encode(): _DESCRIPTOR for name in DESCRIPTORS}
_MINUTES = {f"{minute // 60:02}:{minute % 60:02}".encode(): minute for minute in range(48 * 60 + 1)}
_HEADER = b"Time,Parameter,Value"
_OUTCOMES = b"RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
_OUTCOME = re.compile(rb"(\d{1,9})(?:,-?\d{1,6}){4},([01])")


def train(task: Task, folder: Path) -> TrainData:
    """All records of Set A, with the classes "0" (survived) and "1" (died)."""
    return TrainData(_read_set(task, task.files_train, folder, task.train_size), CLASSES)


def test(task: Task, folder: Path, train: TrainData) -> Examples:  # noqa: ARG001 - the classes are fixed
    """All records of Set C."""
    return _read_set(task, task.files_test, folder, task.test_size)


READER = Reader(train, test)


def _read_set(task: Task, files: tuple[DataFile, ...], folder: Path, size: int | None) -> Examples:
    """The records of one set in the order of its outcomes; every outcome has its record, every record its outcome."""
    outcomes = declared_file(task, files, folder, suffix=".txt")
    archive = declared_file(task, files, folder, suffix=".tar.gz")
    deaths = _read_outcomes(outcomes)
    records = {}
    for name, content in read_tar(archive, lambda name: name.endswith(".txt") and not name.startswith(".")):
        record = name.removesuffix(".txt")
        if record not in deaths:
            raise malformed(archive, f"record {excerpt(record)} has no outcome in {outcomes.name}", "fetch both again")
        records[record] = read_record(archive / name, content, record)
    absent = [record for record in deaths if record not in records]
    if absent:
        raise malformed(
            archive, f"{len(absent)} of {len(deaths)} records are absent, {absent[0]} first", "fetch the archive again"
        )
    check_declared(task, archive, "records", len(records), size)
    check_declared(task, archive, "channels", len(CHANNELS), task.channels)
    check_declared(task, archive, "classes", len(CLASSES), task.outputs)
    times, series = zip(*(records[record] for record in deaths), strict=True)
    return stack_series(archive, series, torch.tensor(list(deaths.values())), times=times, steps=STEPS)


def _read_outcomes(path: Path) -> dict[str, int]:
    """Death (1) or survival (0) by record, in the order of the table."""
    lines = read_bytes(path).rstrip().split(b"\n")
    if lines[0].rstrip(b"\r") != _OUTCOMES:
        raise malformed(path, f"the header is {excerpt(lines[0])}, not {_OUTCOMES.decode()}", line=1)
    deaths: dict[str, int] = {}
    for number, line in enumerate(lines[1:], 2):
        match = _OUTCOME.fullmatch(line.rstrip(b"\r"))
        if match is None:
            raise malformed(path, f"{excerpt(line)} is not five integers and a 0 or 1 at the end", line=number)
        record = match[1].decode()
        if record in deaths:
            raise malformed(path, f"record {record} comes a second time", line=number, column=1)
        deaths[record] = int(match[2])
    if not deaths:
        raise malformed(path, "a header and no outcome", "fetch it again", line=1)
    return deaths


def read_record(path: Path, content: bytes, record: str) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """The hours (T,) and values (T, 37), NaN where nothing was observed, of a record's text; T is at most 208."""
    lines = content.rstrip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")
    if lines[0] != _HEADER:
        raise malformed(path, f"the header is {excerpt(lines[0])}, not {_HEADER.decode()}", line=1)
    for number, line in enumerate(lines, 1):
        if line.count(b",") != 2:
            raise malformed(path, f"{excerpt(line)} is not a time, a parameter and a value", line=number)
    fields = b",".join(lines[1:]).split(b",") if len(lines) > 1 else []
    minutes = _read_minutes(path, fields[0::3])
    kinds = _read_kinds(path, fields, record)
    measured = np.flatnonzero(kinds >= 0)
    tokens = [fields[3 * row + 2] for row in measured]
    try:
        numbers = read_numbers(tokens)
    except UnreadableNumberError as error:
        row = int(measured[error.position])
        raise malformed(path, error.found, line=row + 2, column=_column(fields, row, 2)) from None
    present = np.unique(minutes[kinds != _NAMELESS])
    known = ~np.isnan(numbers) & (numbers != -1.0)
    rows = measured[known]
    cells = np.searchsorted(present, minutes[rows]) * len(CHANNELS) + kinds[rows]
    # The first of each cell in reversed order is its last; assigning at repeated indices would promise nothing.
    cells, last = np.unique(cells[::-1], return_index=True)
    values = np.full(len(present) * len(CHANNELS), np.nan, dtype=np.float32)
    values[cells] = numbers[known][::-1][last]
    return present[:STEPS] / 60, values.reshape(len(present), len(CHANNELS))[:STEPS]


def _read_minutes(path: Path, times: list[bytes]) -> NDArray[np.int64]:
    """Each line's minute, from 0 to 2880, never running backwards."""
    found = [_MINUTES.get(time, -1) for time in times]
    if -1 in found:
        row = found.index(-1)
        raise malformed(path, f"{excerpt(times[row])} is no time from 00:00 to 48:00", line=row + 2, column=1)
    minutes = np.array(found, dtype=np.int64)
    backwards = np.flatnonzero(np.diff(minutes) < 0)
    if len(backwards):
        row = int(backwards[0]) + 1
        raise malformed(
            path, f"{excerpt(times[row])} lies before the line above", "sort the lines", line=row + 2, column=1
        )
    return minutes


def _read_kinds(path: Path, fields: list[bytes], record: str) -> NDArray[np.int64]:
    """What each line holds: a channel's position, or one of the negative marks. The RecordID must be the file's."""
    names = fields[1::3]
    kinds = [_KINDS.get(name, _UNKNOWN) for name in names]
    if _UNKNOWN in kinds:
        row = kinds.index(_UNKNOWN)
        remedy = "only the challenge's 37 series and 6 descriptors are read"
        found = f"unknown parameter {excerpt(names[row])}"
        raise malformed(path, found, remedy, line=row + 2, column=_column(fields, row, 1))
    stated = [fields[3 * row + 2] for row, name in enumerate(names) if name == b"RecordID"]
    if stated != [record.encode()]:
        shown = ", ".join(map(excerpt, stated)) or "not given"
        raise malformed(path, f"RecordID is {shown}, the file's name says {record}", "fetch the archive again")
    return np.array(kinds, dtype=np.int64)


def _column(fields: list[bytes], row: int, field: int) -> int:
    return 1 + sum(len(one) + 1 for one in fields[3 * row : 3 * row + field])
