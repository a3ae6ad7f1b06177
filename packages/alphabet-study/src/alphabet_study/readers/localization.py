"""Localization Data for Person Activity: the positions of four tags on a body, read one after the other.

A row of `ConfLongDemo_JSI.txt` has a sequence (A01 to E05: five recordings of five people), a tag, a time stamp in
units of 100 ns, its date, three coordinates and an activity. A reading is a step with 12 channels, of which the tag's
three are observed, at its own time in seconds since the window began. An example is a window of `window` (50) readings
of one recording in the order of time, without overlap; its class is the activity at its last reading. What is left at
the end of a recording is not used.
The eleven activities are seven classes, as is usual since Rubanova et al. (2019): what one does to lie, sit or stand up
belongs with it.

The paper splits by groups and does not say which. Ours are people: A, B and C optimize, D validates, E is TEST, whose
lines `train` does not parse.
"""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.labels import index_labels, sorted_classes
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, positive_option, read_bytes
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

OPTIMIZATION, VALIDATION, TEST = "ABC", "D", "E"
SEQUENCES = frozenset(f"{person}0{recording}".encode() for person in "ABCDE" for recording in range(1, 6))
TAGS = {b"010-000-024-033": 0, b"010-000-030-096": 1, b"020-000-033-111": 2, b"020-000-032-221": 3}
ACTIVITIES = {
    b"walking": "walking",
    b"falling": "falling",
    b"lying": "lying",
    b"lying down": "lying",
    b"sitting": "sitting",
    b"sitting down": "sitting",
    b"standing up from lying": "standing up",
    b"standing up from sitting": "standing up",
    b"standing up from sitting on the ground": "standing up",
    b"on all fours": "on all fours",
    b"sitting on the ground": "sitting on the ground",
}
TICKS_PER_SECOND = 10**7


class Reading(NamedTuple):
    """One row: its time in ticks, its step (12,) with NaN where nothing was observed, and its class."""

    ticks: int
    step: NDArray[np.float32]
    label: str


def train(task: Task, folder: Path) -> TrainData:
    """The windows of people A, B and C, and of D as validation."""
    path, parts = _read_people(task, task.files_train, folder, (OPTIMIZATION, VALIDATION))
    classes = sorted_classes([label for _, _, label in parts[0]])
    check_declared(task, path, "classes", len(classes), task.outputs)
    check_declared(task, path, "windows before TEST", sum(map(len, parts)), task.train_size)
    optimization, validation = (_stack(path, part, classes) for part in parts)
    return TrainData(optimization, classes, validation)


def test(task: Task, folder: Path, train: TrainData) -> Examples:
    """The windows of person E."""
    path, (windows,) = _read_people(task, task.files_test, folder, (TEST,))
    check_declared(task, path, "windows in TEST", len(windows), task.test_size)
    return _stack(path, windows, train.classes)


READER = Reader(train, test)

Window = tuple[NDArray[np.float32], NDArray[np.float64], str]


def _stack(path: Path, windows: list[Window], classes: tuple[str, ...]) -> Examples:
    series, times, labels = zip(*windows, strict=True)
    return stack_series(path, series, index_labels(path, labels, classes), times=times)


def _read_people(
    task: Task, files: tuple[DataFile, ...], folder: Path, parts: Collection[str]
) -> tuple[Path, list[list[Window]]]:
    """The windows of each part's people."""
    path = declared_file(task, files, folder)
    window = positive_option(task, "window", 50)
    readings: dict[str, list[Reading]] = {}
    for number, line in enumerate(read_bytes(path).rstrip().split(b"\n"), 1):
        sequence, _, rest = line.rstrip(b"\r").partition(b",")
        if sequence not in SEQUENCES:
            raise malformed(path, f"{excerpt(sequence)} is no recording from A01 to E05", line=number, column=1)
        name = sequence.decode()
        if any(name[0] in people for people in parts):
            readings.setdefault(name, []).append(_read_line(path, rest, number))
    found = []
    for people in parts:
        cut = [one for name in sorted(readings) if name[0] in people for one in _cut(readings[name], window)]
        if not cut:
            raise malformed(path, f"people {people} have no recording of {window} readings", "fetch the file again")
        found.append(cut)
    return path, found


def _read_line(path: Path, text: bytes, number: int) -> Reading:
    """A row after its sequence's name, which takes three characters and a comma."""
    fields = text.split(b",")
    if len(fields) != 7:
        raise malformed(path, f"{len(fields) + 1} fields where a row has 8", line=number)
    tag, ticks, date, *position, activity = fields
    at = 5 + len(tag) + 1
    if tag not in TAGS:
        raise malformed(path, f"unknown tag {excerpt(tag)}", line=number, column=5)
    if not (ticks.isdigit() and len(ticks) <= 18):
        raise malformed(path, f"{excerpt(ticks)} is no time stamp", line=number, column=at)
    if activity not in ACTIVITIES:
        raise malformed(
            path, f"unknown activity {excerpt(activity)}", line=number, column=5 + len(text) - len(activity)
        )
    at += len(ticks) + len(date) + 2
    step = np.full(12, np.nan, dtype=np.float32)
    step[3 * TAGS[tag] :][:3] = parse_numbers(path, b",".join(position), b",", line=number, column=at)
    if np.isnan(step).sum() != 9:
        raise malformed(path, "a coordinate is missing", line=number, column=at)
    return Reading(int(ticks), step, ACTIVITIES[activity])


def _cut(readings: list[Reading], window: int) -> list[Window]:
    """A recording's windows in the order of time: steps (window, 12), seconds (window,) from the first, and class."""
    ordered = sorted(readings, key=lambda reading: reading.ticks)
    windows = []
    for first in range(0, len(ordered) - window + 1, window):
        part = ordered[first : first + window]
        seconds = np.array([(reading.ticks - part[0].ticks) / TICKS_PER_SECOND for reading in part])
        windows.append((np.stack([reading.step for reading in part]), seconds, part[-1].label))
    return windows
