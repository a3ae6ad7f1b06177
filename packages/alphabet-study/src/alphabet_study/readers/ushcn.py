"""USHCN as processed by GRU-ODE-Bayes: five daily variables of American weather stations, observed now and then.

`small_chunked_sporadic.csv` has a row per station (ID) and time (0 to 200), in any order: five values, already
standardized, and five masks. The input is what was observed up to time 150, as there; the target is the first value of
each variable observed after it. GRU-ODE-Bayes predicts the next three rows and counts what is observed of them, which
needs a mask on targets; one value of every variable needs none, and stations of which some variable is never observed
after 150, or nothing before, are left out.

The stations are divided as GRU-ODE-Bayes divides them in its first fold, by the draw that its script makes from seed
432: a tenth is TEST, whose rows `train` does not parse, and a fifth of the others is validation.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import Examples
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, read_bytes
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

CUT, END = 150.0, 200.0
VARIABLES = 5
FOLD_SEED, TEST_SHARE, VALIDATION_SHARE = 432, 0.1, 0.2
_HEADER = b"ID,Time," + b",".join(f"{kind}_{i}".encode() for kind in ("Value", "Mask") for i in range(VARIABLES))
_STATION = re.compile(rb"(\d{1,9})(?:\.0)?")

# The lines of each station, by its number: line number and the text after the station's, with its column.
Lines = dict[int, list[tuple[int, bytes, int]]]


class Fold(NamedTuple):
    """The numbers of the stations of each part."""

    optimization: list[int]
    validation: list[int]
    test: list[int]


def train(task: Task, folder: Path) -> TrainData:
    """The stations that optimize, and those that validate."""
    path, lines = _find_stations(task, task.files_train, folder)
    fold = draw_fold(path, list(lines))
    optimization, validation = (_examples(path, lines, part) for part in (fold.optimization, fold.validation))
    check_declared(task, path, "channels", VARIABLES, task.channels)
    check_declared(task, path, "outputs", VARIABLES, task.outputs)
    check_declared(task, path, "stations before TEST", len(optimization) + len(validation), task.train_size)
    return TrainData(optimization, validation=validation)


def test(task: Task, folder: Path, train: TrainData) -> Examples:  # noqa: ARG001 - there are no classes
    """The stations of TEST."""
    path, lines = _find_stations(task, task.files_test, folder)
    examples = _examples(path, lines, draw_fold(path, list(lines)).test)
    check_declared(task, path, "stations in TEST", len(examples), task.test_size)
    return examples


READER = Reader(train, test)


def draw_fold(path: Path, stations: list[int]) -> Fold:
    """GRU-ODE-Bayes's first fold of these stations, each part in the order of their numbers."""
    if len(stations) < 5:
        raise malformed(path, f"{len(stations)} stations, too few for three parts", "fetch it again")
    draw = np.random.RandomState(FOLD_SEED)  # the published fold is a draw of this old generator
    rest, test = train_test_split(sorted(stations), test_size=TEST_SHARE, random_state=draw)
    optimization, validation = train_test_split(rest, test_size=VALIDATION_SHARE, random_state=draw)
    return Fold(sorted(optimization), sorted(validation), sorted(test))


def _find_stations(task: Task, files: tuple[DataFile, ...], folder: Path) -> tuple[Path, Lines]:
    path = declared_file(task, files, folder)
    lines = read_bytes(path).rstrip().split(b"\n")
    if lines[0].rstrip(b"\r") != _HEADER:
        raise malformed(path, f"the header is {excerpt(lines[0])}, not {_HEADER.decode()}", line=1)
    stations: Lines = {}
    for number, line in enumerate(lines[1:], 2):
        name, _, rest = line.rstrip(b"\r").partition(b",")
        match = _STATION.fullmatch(name)
        if match is None:
            raise malformed(path, f"{excerpt(name)} is not a station's number", line=number, column=1)
        stations.setdefault(int(match[1]), []).append((number, rest, len(name) + 2))
    return path, stations


def _examples(path: Path, lines: Lines, stations: list[int]) -> Examples:
    series, times, targets = [], [], []
    for station in stations:
        table = np.stack([_read_row(path, *line) for line in lines[station]])
        table = table[np.argsort(table[:, 0], kind="stable")]
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


def _read_row(path: Path, number: int, text: bytes, column: int) -> NDArray[np.float32]:
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
