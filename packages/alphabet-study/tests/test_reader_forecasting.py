"""Forecasting CSV: windows that never cross a division, and rows that are all there."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from alphabet_core import Examples
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS
from alphabet_study.readers.forecasting_csv import Parts, divide_rows
from alphabet_testing.study_files import declare, forecasting

DATA = os.environ.get("ALPHABET_DATA", "")
READER = READERS["forecasting-csv"]


def read(folder: Path, **options: Any) -> tuple[Examples, Examples, Examples]:
    small = forecasting(**options)
    train = READER.train(small.task, small.write(folder))
    assert train.validation is not None
    return train.examples, train.validation, READER.test(small.task, folder, train)


def test_windows_are_the_rows_that_follow_each_other(tmp_path: Path):
    optimization, _, _ = read(tmp_path)
    assert optimization.values.shape == (12 - 3 - 2 + 1, 3, 2)
    assert optimization.values[2].tolist() == [[2.5, -0.5], [3.5, -0.75], [4.5, -1.0]]
    assert optimization.targets[2].tolist() == [5.5, -1.25, 6.5, -1.5]  # time first, then channels
    assert optimization.targets.dtype == torch.float32


def test_no_window_crosses_a_division(tmp_path: Path):
    for part, first, last in zip(read(tmp_path), (0, 12, 18), (11, 17, 23), strict=True):
        assert part.values[0, 0, 0] == first + 0.5
        assert part.targets[-1, -2] == last + 0.5
        assert len(part) == last - first + 1 - 3 - 2 + 1


def test_train_does_not_parse_the_rows_of_test(tmp_path: Path):
    small = forecasting()
    expected = READER.train(small.task, small.write(tmp_path))
    path = tmp_path / "load.csv"
    lines = path.read_bytes().split(b"\n")
    lines[20] = b"this row of TEST, is, no, row"
    path.write_bytes(b"\n".join(lines))
    train = READER.train(small.task, tmp_path)
    assert train.validation is not None
    assert expected.validation is not None
    assert torch.equal(train.examples.values, expected.examples.values)
    assert torch.equal(train.validation.targets, expected.validation.targets)
    with pytest.raises(StudyError, match="line 21, column 1: 'this row of TEST' is not a date"):
        READER.test(small.task, tmp_path, train)


def test_windows_share_the_memory_of_the_rows_and_taken_ones_do_not(tmp_path: Path):
    optimization, _, _ = read(tmp_path, rows=600, shares=[0.8, 0.1, 0.1], context=36, horizon=24)
    assert optimization.values.untyped_storage().nbytes() <= 600 * 2 * 4
    assert optimization.targets.untyped_storage().data_ptr() == optimization.values.untyped_storage().data_ptr()
    taken = optimization.take(torch.tensor([3, 1]))
    assert taken.values.is_contiguous()
    assert torch.equal(taken.values[1], optimization.values[1])


def test_shares_divide_all_rows_and_validation_is_the_rest():
    task = forecasting(shares=[0.7, 0.1, 0.2]).task
    assert divide_rows(task, 7588) == Parts(5311, 760, 1517)
    assert sum(divide_rows(task, 101)) == 101


@pytest.mark.parametrize(
    "options",
    [
        {"rows": [12, 6]},
        {"rows": [12, 6, 0]},
        {"rows": [12.0, 6, 6]},
        {"rows": [12, 6, 6], "shares": [0.5, 0.25, 0.25]},
        {"shares": [0.5, 0.5, 0.5]},
        {"shares": "most"},
        {},
        {"rows": [12, 6, 6], "context": 0},
        {"rows": [12, 6, 6], "horizon": None},
    ],
)
def test_an_impossible_declaration_is_refused(options: dict[str, Any], tmp_path: Path):
    forecasting().write(tmp_path)
    options = {"context": 3, "horizon": 2, **options}
    task = declare("Load", "forecasting-csv", ("load.csv",), ("load.csv",), options=options)
    with pytest.raises(StudyError, match="task Load: "):
        READER.train(task, tmp_path)


def edit(line: int, text: bytes | None) -> dict[int, bytes | None]:
    return {line: text}


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (edit(1, b"time,a,b"), "line 1, column 1: the first column is 'time', not 'date'"),
        (edit(1, b"date,a,a"), "line 1: a column is nameless, or two have the same name"),
        (edit(3, b"2016-07-01 01:00:00,1"), "line 3: 1 values where the header names 2"),
        (edit(3, b"2016-07-01 01:00:00,1,2,3"), "line 3: 3 values where the header names 2"),
        (edit(3, b"2016-07-01 01:00:00,1,x"), "line 3, column 23: 'x' is not a number"),
        (edit(3, b"2016-07-01 01:00:00,1,1e39"), "line 3, column 23: '1e39' is infinite in single precision"),
        (edit(3, b"2016-07-01 01:00:00,1,nan"), "line 3: a missing value; forecasting sets must be complete"),
        (edit(3, b"2016-02-30,1,2"), "line 3, column 1: '2016-02-30' is not a date"),
        (edit(3, b""), "line 3, column 1: '' is not a date"),
        (edit(4, b"2016-07-01 00:30:00,1,2"), "line 4, column 1: '2016-07-01 00:30:00' lies before the row above"),
        (edit(25, None), "23 rows, but task Load divides 24"),
    ],
)
def test_a_malformed_file_is_refused_at_its_place(edits: dict[int, bytes | None], message: str, tmp_path: Path):
    small = forecasting()
    path = small.write(tmp_path) / "load.csv"
    lines = path.read_bytes().rstrip().split(b"\n")
    for line, text in edits.items():
        lines[line - 1 : line] = [] if text is None else [text]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(StudyError) as caught:
        READER.train(small.task, tmp_path)
    assert message in str(caught.value)


def test_a_part_too_short_for_a_window_is_refused(tmp_path: Path):
    small = forecasting(rows=18)
    task = declare(
        "Load",
        "forecasting-csv",
        ("load.csv",),
        ("load.csv",),
        options={"context": 3, "horizon": 2, "rows": [10, 4, 4]},
    )
    with pytest.raises(StudyError, match=r"validation has 4 rows, too few for one window of 3 \+ 2"):
        READER.train(task, small.write(tmp_path))


REAL = {
    "ETTh1": ("ETTh1.csv", {"rows": [8640, 2880, 2880]}, 7),
    "ETTh2": ("ETTh2.csv", {"rows": [8640, 2880, 2880]}, 7),
    "ETTm1": ("ETTm1.csv", {"rows": [34560, 11520, 11520]}, 7),
    "ETTm2": ("ETTm2.csv", {"rows": [34560, 11520, 11520]}, 7),
    "Exchange-Rate": ("exchange_rate.csv", {"rows": [5311, 760, 1517]}, 8),
    "ILI": ("national_illness.csv", {"shares": [0.7, 0.1, 0.2]}, 7),
    "Weather": ("weather.csv", {"shares": [0.7, 0.1, 0.2]}, 21),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_sets_are_read_as_numpy_reads_them(name: str):
    file, division, channels = REAL[name]
    folder = Path(DATA) / "General" / name
    if not DATA or not (folder / file).is_file():
        pytest.skip(f"set ALPHABET_DATA to a folder with General/{name}/{file}")
    options = {"context": 24, "horizon": 12, **division}
    task = declare(
        name, "forecasting-csv", (file,), (file,), objective="forecasting", options=options, channels=channels
    )
    train = READER.train(task, folder)
    test = READER.test(task, folder, train)
    rows = np.loadtxt(
        folder / file, delimiter=",", skiprows=1, usecols=range(1, channels + 1), encoding="latin-1", dtype=np.float64
    ).astype(np.float32)
    parts = divide_rows(task, len(rows))
    assert train.validation is not None
    starts = (0, parts.train, parts.train + parts.validation)
    for examples, start, count in zip((train.examples, train.validation, test), starts, parts, strict=True):
        assert len(examples) == count - 35
        for window in (0, len(examples) // 2, len(examples) - 1):
            at = start + window
            assert np.array_equal(examples.values[window], rows[at : at + 24])
            assert np.array_equal(examples.targets[window], rows[at + 24 : at + 36].reshape(-1))
