"""USHCN as processed by GRU-ODE-Bayes: five daily variables of American weather stations, observed now and then.

`small_chunked_sporadic.csv` has a row per station (ID) and time (0 to 200), five values and five masks. The input is
what was observed up to time 150, as there; the target is the first value of each variable observed after it.
GRU-ODE-Bayes predicts the next three rows and counts what is observed of them, which needs a mask on targets; one value
of every variable needs none, and stations of which some variable is never observed after 150, or nothing before, are
left out.

The published folds are random draws that were never released. Ours: by ID modulo 5, remainder 4 is TEST, whose rows
`train` does not parse, 3 is validation, the others optimize.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, read_bytes
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

OPTIMIZATION, VALIDATION, TEST = (0, 1, 2), (3,), (4,)
CUT, END = 150.0, 200.0
VARIABLES = 5
_HEADER = b"ID,Time," + b",".join(f"{kind}_{i}".encode() for kind in ("Value", "Mask") for i in range(VARIABLES))


def train(task: Task, folder: Path) -> TrainData:
    """The stations with remainder 0, 1 or 2, and those with 3 as validation."""
    path, (optimization, validation) = _read_stations(task, task.files_train, folder, (OPTIMIZATION, VALIDATION))
    check_declared(task, path, "channels", VARIABLES, task.channels)
    check_declared(task, path, "outputs", VARIABLES, task.outputs)
    check_declared(task, path, "stations before TEST", len(optimization) + len(validation), task.train_size)
    return TrainData(optimization, validation=validation)


def test(task: Task, folder: Path, train: TrainData) -> Examples:  # noqa: ARG001 - there are no classes
    """The stations with remainder 4."""
    path, (examples,) = _read_stations(task, task.files_test, folder, (TEST,))
    check_declared(task, path, "stations in TEST", len(examples), task.test_size)
    return examples


READER = Reader(train, test)


def _read_stations(
    task: Task, files: tuple[DataFile, ...], folder: Path, parts: Collection[Collection[int]]
) -> tuple[Path, list[Examples]]:
    """The examples of each part, its stations in the order of their IDs."""
    path = declared_file(task, files, folder)
    lines = read_bytes(path).rstrip().split(b"\n")
    if lines[0].rstrip(b"\r") != _HEADER:
        raise malformed(path, f"the header is {excerpt(lines[0])}, not {_HEADER.decode()}", line=1)
    wanted = {remainder for part in parts for remainder in part}
    stations: dict[int, list[NDArray[np.float32]]] = {}
    for number, line in enumerate(lines[1:], 2):
        name, _, rest = line.rstrip(b"\r").partition(b",")
        if not (name.isdigit() and len(name) <= 9):
            raise malformed(path, f"{excerpt(name)} is not a station's number", line=number, column=1)
        if int(name) % 5 in wanted:
            row = _read_row(path, rest, number, len(name) + 2)
            rows = stations.setdefault(int(name), [])
            if rows and row[0] < rows[-1][0]:
                raise malformed(path, "the time lies before this station's last row", "sort the rows", line=number)
            rows.append(row)
    return path, [
        _examples(path, {one: stations[one] for one in sorted(stations) if one % 5 in part}) for part in parts
    ]


def _read_row(path: Path, text: bytes, number: int, column: int) -> NDArray[np.float32]:
    """Time and values (6,), NaN where the mask says 0."""
    row = parse_numbers(path, text, b",", line=number, column=column)
    if len(row) != 1 + 2 * VARIABLES:
        raise malformed(path, f"{len(row) + 1} fields where the header names {2 + 2 * VARIABLES}", line=number)
    values, masks = row[1 : 1 + VARIABLES], row[1 + VARIABLES :]
    if not 0.0 <= row[0] <= END:
        raise malformed(path, f"time {row[0]:g} lies outside 0 ... {END:g}", line=number, column=column)
    if not np.isin(masks, (0.0, 1.0)).all() or np.isnan(values[masks == 1.0]).any():
        raise malformed(path, "a mask is neither 0 nor 1, or a value that it announces is missing", line=number)
    return np.append(row[:1], np.where(masks == 1.0, values, np.nan)).astype(np.float32)


def _examples(path: Path, stations: dict[int, list[NDArray[np.float32]]]) -> Examples:
    series, times, targets = [], [], []
    for rows in stations.values():
        table = np.stack(rows)
        before = table[:, 0] <= CUT
        given, later = table[before, 1:], table[~before, 1:]
        seen = ~np.isnan(later)
        if np.isnan(given).all() or not seen.any(axis=0).all():
            continue
        series.append(given)
        times.append(table[before, 0].astype(np.float64))
        targets.append(later[seen.argmax(axis=0), np.arange(VARIABLES)])
    if not series:
        raise malformed(path, "no station of this part has values to predict from and to predict", "fetch it again")
    return stack_series(path, series, torch.from_numpy(np.stack(targets)), times=times)
