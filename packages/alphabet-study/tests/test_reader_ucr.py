"""UCR and UEA files: what they say is what is read, and a contradiction is refused at its place."""

import csv
import os
from pathlib import Path

import aeon.datasets
import numpy as np
import pytest
import torch
from aeon.datasets import load_from_ts_file
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS
from alphabet_study.readers.ucr import read_archive
from alphabet_testing.study_files import declare, ucr_multivariate, ucr_tsv, ucr_univariate

BUNDLED = Path(aeon.datasets.__file__).parent / "data"
DATA = os.environ.get("ALPHABET_DATA", "")
READER = READERS["ucr"]


def test_values_labels_and_classes_are_those_of_the_file(tmp_path: Path):
    small = ucr_univariate()
    train = READER.train(small.task, small.write(tmp_path))
    assert train.classes == ("1", "2")
    assert train.examples.targets.tolist() == [0, 1, 0, 1]
    assert train.examples.targets.dtype == torch.int64
    expected = torch.tensor([0.5, 1, -2.25, 0.3, 4])
    assert torch.equal(train.examples.values[0, :, 0], expected)
    assert train.examples.values.shape == (4, 5, 1)
    assert train.examples.side_inputs() == {}
    test = READER.test(small.task, tmp_path, train)
    assert test.targets.tolist() == [1, 0, 1]


def test_train_never_opens_test(tmp_path: Path):
    small = ucr_univariate()
    small.write(tmp_path)
    (tmp_path / "Small_TEST.ts").unlink()
    train = READER.train(small.task, tmp_path)
    with pytest.raises(StudyError, match=r"Small_TEST\.ts: cannot be read \(No such file or directory\); fetch it"):
        READER.test(small.task, tmp_path, train)


def test_unequal_lengths_are_padded_and_missing_values_marked(tmp_path: Path):
    small = ucr_multivariate()
    train = READER.train(small.task, small.write(tmp_path))
    examples = train.examples
    assert train.classes == ("run", "sit", "stand")
    assert examples.values.shape == (4, 4, 2)
    assert examples.valid is not None
    assert examples.observed is not None
    assert examples.valid.sum(dim=1).tolist() == [3, 1, 4, 2]
    assert examples.values[0].tolist() == [[1, 4], [2, 5], [3, 6], [0, 0]]
    assert examples.values[2].tolist() == [[0, 1], [2, 0], [0, 3], [4, 4]]
    assert examples.observed[2].tolist() == [[False, True], [True, False], [False, True], [True, True]]
    assert not examples.observed[1, 1:].any()
    test = READER.test(small.task, tmp_path, train)
    assert test.values.shape == (2, 6, 2)  # longer than TRAIN
    assert test.targets.tolist() == [0, 1]


def test_tsv_is_read_where_only_it_is_there(tmp_path: Path):
    small = ucr_tsv()
    train = READER.train(small.task, small.write(tmp_path))
    examples = train.examples
    assert train.classes == ("-1", "1")
    assert examples.valid is not None
    assert examples.observed is not None
    assert examples.valid.sum(dim=1).tolist() == [4, 2, 4]  # trailing NaNs are padding
    assert examples.observed[2, :, 0].tolist() == [True, False, True, True]  # a NaN within is missing
    assert READER.test(small.task, tmp_path, train).valid is not None


MULTI = "@univariate false\n@classLabel true a b\n@data\n"
UNI = "@univariate true\n@classLabel true a b\n@data\n"
REFUSED = {
    "timestamps by header": ("@timeStamps true\n@classLabel true a\n@data\n(0,1):a\n", "line 1: @timeStamps true"),
    "timestamps by tuple": ("@classLabel true a\n@data\n1,2:a\n(0,1),(1,2):a\n", "line 4, column 1: a '(time, value)'"),
    "a word": (UNI + "1,2:a\n1,two:b\n", "line 5, column 3: 'two' is not a number; fetch"),
    "an empty value": (UNI + "1,,2:a\n", "line 4, column 3: nothing stands where a number must be"),
    "an underscore": (UNI + "1_0,2:a\n", "line 4, column 1: '1_0' is not a number"),
    "another script's digit": (UNI + "1,٣:a\n", "line 4, column 3"),
    "infinity": (UNI + "1,inf:a\n", "line 4, column 3: 'inf' is not a number"),
    "overflow": (UNI + "1,2,1e39:a\n", "line 4, column 5: '1e39' is infinite in single precision"),
    "overflow of doubles": (UNI + "-1e400:a\n", "line 4, column 1: '-1e400' is infinite"),
    "a NUL": (UNI + "1,2\0:a\n", "line 4, column 3"),
    "no label": (UNI + "1,2,3\n", "line 4: no ':'"),
    "an empty label": (UNI + "1,2,3:a\n1,2:\n1:a\n", "line 5, column 5: '' is not a label"),
    "an empty line": (UNI + "1,2,3:a\n\n1,2,3:b\n", "line 5: an empty line among the series"),
    "an empty channel": (MULTI + "1,2::a\n", "line 4, column 5: a channel without values"),
    "unequal channels": (MULTI + "1,2:3:a\n", "line 4, column 5: channel 2 has 1 values, channel 1 has 2; give all"),
    "other channels": (MULTI + "1:2:a\n1:2:3:b\n", "line 5: 3 channels where the first series has 2"),
    "all missing": (UNI + "?,NaN:a\n", "line 4: every value of this series is missing"),
    "no series": (UNI, "line 3: no series after @data"),
    "no @data": ("@classLabel true a\n", "line 1: no @data line"),
    "no classes": ("@classLabel false\n@data\n1:a\n", "line 1, column 13: @classLabel names no classes"),
    "no @classLabel": ("@univariate true\n@data\n1:a\n", "line 2: no @classLabel before @data"),
    "unknown header": ("@targetLabel true\n@data\n1:a\n", "line 1: '@targetLabel' is no header of a .ts file"),
    "header twice": ("@missing true\n@missing true\n@data\n", "line 2: a second @missing"),
    "neither true nor false": ("@missing maybe\n@data\n", "line 1, column 10: 'maybe' is neither true nor false"),
    "unannounced label": (UNI + "1:a\n1:c\n", "line 5: label 'c' where @classLabel announces a, b"),
    "announced, absent": (UNI + "1:a\n", "@classLabel announces b, of which TRAIN has no series"),
    "univariate false": (MULTI + "1:a\n", "line 4: 1 channel(s) where @univariate says false"),
    "dimensions": ("@dimensions 3\n@classLabel true a\n@data\n1:2:a\n", "line 4: 2 channels where @dimensions says 3"),
    "length": ("@seriesLength 2\n@classLabel true a\n@data\n1:a\n", "line 4: 1 values per channel where @seriesLength"),
    "huge length": (
        f"@seriesLength {10**12}\n@classLabel true a\n@data\n1:a\n",
        "line 1, column 15: @serieslength must",
    ),
    "large length": (f"@seriesLength {10**11}\n@classLabel true a\n@data\n1:a\n", "line 4: 1 values per channel where"),
    "unequal": ("@equalLength true\n@classLabel true a\n@data\n1:a\n1,2:a\n", "line 5: 2 values per channel where"),
    "missing": ("@missing false\n@classLabel true a\n@data\n1,?:a\n", "line 4: a missing value where @missing says"),
    "empty file": ("\n \n", "the file is empty"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_malformed_file_is_refused_at_its_place(fault: str, tmp_path: Path):
    text, message = REFUSED[fault]
    (tmp_path / "X_TRAIN.ts").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        READER.train(declare("X", "ucr", ("X_TRAIN.ts",), ()), tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "X_TRAIN.ts") in str(caught.value)
    assert "; " in str(caught.value)  # a remedy follows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\t2\t3\n1\t2\n", "line 2: 1 values where the first line has 2"),
        ("1 2 3\n", "line 1: no tab"),
        ("1\t2\tx\n", "line 1, column 5: 'x' is not a number"),
        ("1\tNaN\tNaN\n", "line 1: every value of this series is missing"),
    ],
)
def test_a_malformed_tsv_is_refused_at_its_place(text: str, message: str, tmp_path: Path):
    path = tmp_path / "X_TRAIN.tsv"
    path.write_text(text)
    with pytest.raises(StudyError, match=message):
        read_archive(path)


def test_a_label_that_train_does_not_have_is_refused(tmp_path: Path):
    small = ucr_tsv()
    train = READER.train(small.task, small.write(tmp_path))
    (tmp_path / "Tabs_TEST.tsv").write_text("2\t1\t2\t3\t4\n")
    with pytest.raises(StudyError, match="label '2' does not occur in TRAIN, whose classes are -1, 1"):
        READER.test(small.task, tmp_path, train)


@pytest.mark.parametrize(("field", "wrong"), [("train_size", 5), ("channels", 2), ("outputs", 3)])
def test_what_the_task_declares_is_checked(field: str, wrong: int, tmp_path: Path):
    small = ucr_univariate()
    small.write(tmp_path)
    task = declare("Small", "ucr", ("Small_TRAIN.ts",), ("Small_TEST.ts",), **{field: wrong})
    with pytest.raises(StudyError, match=f"but task Small declares {wrong}"):
        READER.train(task, tmp_path)


def test_windows_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path):
    small = ucr_multivariate()
    plain = READER.train(small.task, small.write(tmp_path)).examples
    path = tmp_path / "Wide_TRAIN.ts"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    same = READER.train(small.task, tmp_path).examples
    assert torch.equal(plain.values, same.values)
    assert torch.equal(plain.targets, same.targets)


def assert_read_as_aeon_reads(path: Path) -> None:
    archive = read_archive(path)
    theirs, labels = load_from_ts_file(str(path))
    assert [label.lower() for label in archive.labels] == list(labels)  # aeon reads all text in lower case
    assert len(archive.series) == len(theirs)
    for ours, other in zip(archive.series, theirs, strict=True):
        assert np.array_equal(ours, np.asarray(other, dtype=np.float32).T, equal_nan=True)


@pytest.mark.parametrize("name", ["GunPoint", "JapaneseVowels", "BasicMotions", "PickupGestureWiimoteZ"])
@pytest.mark.parametrize("part", ["TRAIN", "TEST"])
def test_bundled_sets_are_read_as_aeon_reads_them(name: str, part: str):
    assert_read_as_aeon_reads(BUNDLED / name / f"{name}_{part}.ts")


def _indexed() -> list[dict[str, str]]:
    index = Path(DATA) / "INDEX.tsv"
    if not DATA or not index.is_file():
        return []
    with index.open(newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["suite"] in ("UCR", "UEA")]


@pytest.mark.slow
@pytest.mark.skipif(not _indexed(), reason="set ALPHABET_DATA to a folder of real data with its INDEX.tsv")
@pytest.mark.parametrize("row", _indexed(), ids=lambda row: row["name"])
def test_real_sets_are_read_whole_and_as_aeon_reads_them(row: dict[str, str]):
    name, folder = row["name"], Path(DATA) / row["suite"] / row["name"]
    sizes = {"train_size": "n_train", "test_size": "n_test", "channels": "C", "outputs": "K"}
    declared = {field: int(row[column]) for field, column in sizes.items()}
    task = declare(name, "ucr", (f"{name}_TRAIN.ts",), (f"{name}_TEST.ts",), **declared)
    train = READER.train(task, folder)
    test = READER.test(task, folder, train)
    longest = int(row["T"].rpartition("-")[2])
    assert max(train.examples.values.shape[1], test.values.shape[1]) == longest
    assert all(part.observed is None and part.values.isfinite().all() for part in (train.examples, test))
    for part in ("TRAIN", "TEST"):
        assert_read_as_aeon_reads(folder / f"{name}_{part}.ts")
