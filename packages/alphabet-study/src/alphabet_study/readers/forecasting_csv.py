"""Forecasting sets as one CSV: a header, a date first, then one column per channel, one row per instant.

The rows are divided by time into TRAIN, validation and TEST, by the task's option `rows` (three counts; rows beyond
them are unused, as in the ETT sets) or `shares` (three shares of all rows; TRAIN and TEST are rounded down, validation
is the rest). An example is a window of `context` rows and, as its target, the `horizon` rows that follow, flattened
with time first. No window crosses a division: input and target lie in the same part. Code of the long-term forecasting
literature lets the first inputs of validation and TEST reach back into the part before; ours does not, as the paper
says, so the first `context` rows of each part are never predicted.

Every channel is an input and a target. Windows overlap in memory: values and targets are views of one copy of the rows.
Dates never run backwards, but may repeat (one of Weather's does). The header may hold bytes of another encoding
(Weather's was damaged before it was published); names are UTF-8 or, failing that, Latin-1.
"""

import math
import re
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from alphabet_core import Examples

from alphabet_study.data import Reader, TrainData
from alphabet_study.errors import StudyError
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, positive_option, read_bytes
from alphabet_study.registry.task import DataFile, Task

_DATE = re.compile(rb"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?: (\d{1,2}):(\d{2})(?::(\d{2}))?)?")


class Parts(NamedTuple):
    """The numbers of rows of the three parts, in the order of time."""

    train: int
    validation: int
    test: int


def train(task: Task, folder: Path) -> TrainData:
    """TRAIN's windows as examples and validation's as validation; no row behind validation is parsed."""
    path, lines, parts = _open(task, task.files_train, folder)
    rows = _parse_rows(path, lines, 0, parts.train + parts.validation)
    optimization = _windows(task, path, rows[: parts.train], "TRAIN")
    validation = _windows(task, path, rows[parts.train :], "validation")
    check_declared(task, path, "channels", rows.shape[1], task.channels)
    check_declared(task, path, "outputs", optimization.targets.shape[1], task.outputs)
    check_declared(task, path, "windows before TEST", len(optimization) + len(validation), task.train_size)
    return TrainData(optimization, validation=validation)


def test(task: Task, folder: Path, train: TrainData) -> Examples:
    """TEST's windows."""
    path, lines, parts = _open(task, task.files_test, folder)
    rows = _parse_rows(path, lines, parts.train + parts.validation, parts.test)
    examples = _windows(task, path, rows, "TEST")
    if examples.values.shape[2] != train.examples.values.shape[2]:
        raise malformed(path, "TEST has another number of channels than TRAIN", "fetch the file again")
    check_declared(task, path, "windows in TEST", len(examples), task.test_size)
    return examples


READER = Reader(train, test)


def divide_rows(task: Task, count: int) -> Parts:
    """The parts into which the task's options divide this number of rows."""
    if ("rows" in task.options) == ("shares" in task.options):
        raise StudyError(f"task {task.name}: give either the option rows or the option shares, three numbers each")
    name = "rows" if "rows" in task.options else "shares"
    kind = int if name == "rows" else float
    given = task.options[name]
    if (
        not isinstance(given, list | tuple)
        or len(given) != 3
        or not all(type(part) is kind and part > 0 for part in given)
    ):
        raise StudyError(f"task {task.name}: option {name} must be three positive {kind.__name__}s; got {given!r}")
    if name == "rows":
        return Parts(*given)
    if not math.isclose(sum(given), 1.0):
        raise StudyError(f"task {task.name}: option shares must add up to 1; got {given!r}")
    parts = Parts(int(count * given[0]), 0, int(count * given[2]))
    return parts._replace(validation=count - parts.train - parts.test)


def _open(task: Task, files: tuple[DataFile, ...], folder: Path) -> tuple[Path, list[bytes], Parts]:
    path = declared_file(task, files, folder)
    lines = read_bytes(path).removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n").split(b"\n")
    parts = divide_rows(task, len(lines) - 1)
    if sum(parts) > len(lines) - 1:
        raise malformed(
            path, f"{len(lines) - 1} rows, but task {task.name} divides {sum(parts)}", "fetch the file again"
        )
    return path, lines, parts


def _parse_rows(path: Path, lines: list[bytes], start: int, count: int) -> torch.Tensor:
    """The rows (count, C) from `start` on, in the order of their dates."""
    names = _column_names(path, lines[0])
    rows = np.empty((count, len(names) - 1), dtype=np.float32)
    before = datetime.min
    for position in range(count):
        number = start + position + 2  # lines count from 1, and the first is the header
        text = lines[number - 1].removesuffix(b"\r")
        date, _, rest = text.partition(b",")
        now = _read_date(path, date, number)
        if now < before:
            raise malformed(path, f"{excerpt(date)} lies before the row above", "sort the rows", line=number, column=1)
        before = now
        values = parse_numbers(path, rest, b",", line=number, column=len(date) + 2)
        if len(values) != rows.shape[1]:
            raise malformed(path, f"{len(values)} values where the header names {rows.shape[1]}", line=number)
        rows[position] = values
    missing = np.isnan(rows)
    if missing.any():
        at = int(missing.any(axis=1).argmax())
        raise malformed(path, "a missing value", "forecasting sets must be complete", line=start + at + 2)
    return torch.from_numpy(rows)


def _column_names(path: Path, line: bytes) -> list[str]:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    names = [name.strip() for name in text.removesuffix("\r").split(",")]
    if names[0].lower() != "date":
        raise malformed(
            path, f"the first column is {excerpt(names[0])}, not 'date'", "add the header", line=1, column=1
        )
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise malformed(path, "a column is nameless, or two have the same name", "name all columns", line=1)
    return names


def _read_date(path: Path, text: bytes, line: int) -> datetime:
    match = _DATE.fullmatch(text)
    try:
        if match is not None:
            year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
            return datetime(year, month, day, hour, minute, second)
    except ValueError:
        pass
    raise malformed(path, f"{excerpt(text)} is not a date such as 2016-07-01 00:00:00", line=line, column=1)


def _windows(task: Task, path: Path, rows: torch.Tensor, part: str) -> Examples:
    """All windows of these rows (R, C): values (N, context, C) and targets (N, horizon x C), views of the rows."""
    context, horizon = positive_option(task, "context"), positive_option(task, "horizon")
    count = len(rows) - context - horizon + 1
    if count < 1:
        raise malformed(
            path,
            f"{part} has {len(rows)} rows, too few for one window of {context} + {horizon}",
            "shorten the window or move the divisions",
        )
    channels = rows.shape[1]
    flat = rows.reshape(-1)
    # Row-major rows make each window one contiguous stretch, and the next window starts one row later.
    values = flat[: (count + context - 1) * channels].unfold(0, context * channels, channels)
    targets = flat[context * channels :].unfold(0, horizon * channels, channels)
    return Examples(values.unflatten(1, (context, channels)), targets)
