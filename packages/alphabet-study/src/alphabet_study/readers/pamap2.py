"""PAMAP2: activities by heart rate and three motion sensors, 100 rows a second, one `.dat` file per person.

A row has 54 numbers: time, activity, heart rate, and 17 for each sensor, at hand, chest and ankle. Of these 17 the
authors call the orientation invalid and advise against the second acceleration, which saturates; so the 31 channels
are the heart rate and each sensor's temperature, first acceleration, rotation and magnetic field. Heart rate comes nine
times a second and is missing in between. An example is a window of `window` (600) rows, without overlap, within one
stretch of one activity; the rest of a stretch is not used, nor is activity 0, the time between activities.

People are divided by the declaration: files_train and files_test. One file of TRAIN is validation, subject105 unless
the option `validation` names others; where none of these files is declared, there is no predefined validation.
"""

from pathlib import Path

import numpy as np
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.labels import index_labels, sorted_classes
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, malformed, positive_option, read_bytes, split_validation
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

COLUMNS = 54
# The heart rate; of each sensor's 17 columns temperature (0), acceleration (1-3), rotation (7-9) and field (10-12).
CHANNELS = (2, *(3 + 17 * sensor + offset for sensor in range(3) for offset in (0, 1, 2, 3, 7, 8, 9, 10, 11, 12)))
ACTIVITIES = frozenset((0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 24))

Windows = tuple[list[NDArray[np.float32]], list[str]]


def train(task: Task, folder: Path) -> TrainData:
    """The windows of the people of TRAIN, of some of them as validation."""
    optimization, validation = split_validation(task, ("subject105.dat",))
    series, labels = _read_people(task, optimization, folder)
    classes = sorted_classes(labels)
    check_declared(task, folder, "classes", len(classes), task.outputs)
    check_declared(task, folder, "channels", len(CHANNELS), task.channels)
    held_out = _read_people(task, validation, folder) if validation else None
    return TrainData(
        stack_series(folder, series, index_labels(folder, labels, classes)),
        classes,
        None if held_out is None else stack_series(folder, held_out[0], index_labels(folder, held_out[1], classes)),
    )


def test(task: Task, folder: Path, train: TrainData) -> Examples:
    """The windows of the people of TEST."""
    series, labels = _read_people(task, task.files_test, folder)
    return stack_series(folder, series, index_labels(folder, labels, train.classes))


READER = Reader(train, test)


def _read_people(task: Task, files: tuple[DataFile, ...], folder: Path) -> Windows:
    window = positive_option(task, "window", 600)
    series: list[NDArray[np.float32]] = []
    labels: list[str] = []
    for file in files:
        more = read_person(folder / file.name, window)
        series += more[0]
        labels += more[1]
    if not series:
        raise malformed(folder, f"no activity of {len(files)} people lasts {window} rows", "shorten the option window")
    return series, labels


def read_person(path: Path, window: int) -> Windows:
    """The windows (window, 31) of one file, and the activity of each."""
    rows = []
    before = -np.inf
    for number, line in enumerate(read_bytes(path).rstrip().split(b"\n"), 1):
        row = parse_numbers(path, line.rstrip(b"\r"), b" ", line=number)
        if len(row) != COLUMNS:
            raise malformed(path, f"{len(row)} values where a row has {COLUMNS}", line=number)
        if not row[0] >= before:
            raise malformed(path, "the time is missing or lies before the row above", line=number, column=1)
        if float(row[1]) not in ACTIVITIES:
            raise malformed(path, f"{row[1]:g} is not the number of an activity", line=number)
        before = row[0]
        rows.append(row)
    table = np.stack(rows)
    activity = table[:, 1]
    ends = [*(np.flatnonzero(np.diff(activity)) + 1), len(table)]
    series, labels = [], []
    for start, end in zip([0, *ends], ends, strict=False):
        if activity[start] == 0:
            continue
        for first in range(start, end - window + 1, window):
            one = table[first : first + window, CHANNELS]
            if np.isnan(one).all():
                raise malformed(path, f"nothing is observed in {window} rows", "leave them out", line=first + 1)
            series.append(one)
            labels.append(f"{activity[start]:g}")
    return series, labels
