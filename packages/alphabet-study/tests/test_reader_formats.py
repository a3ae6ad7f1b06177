"""The formats of single sets: each read from a small file as published, TEST untouched by `train`, faults refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from alphabet_study.data import TrainData
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS, localization, mat_vibration, ushcn
from alphabet_testing.study_files import (
    SMALL_SETS,
    SmallSet,
    clinical_2019,
    declare,
    images,
    motion,
    pack,
    positions,
    stations,
    vibration,
)
from scipy.io import savemat


def read(small: SmallSet, folder: Path) -> TrainData:
    return READERS[str(small.task.reader)].train(small.task, small.write(folder))


def edited(small: SmallSet, name: str, old: bytes, new: bytes) -> SmallSet:
    """The same set with one occurrence replaced, in a file or in an archive's member."""
    file, _, member = name.partition("/")
    content = small.files[file]
    before = content if isinstance(content, bytes) else content[member]
    assert old in before
    after = before.replace(old, new, 1)
    changed = after if isinstance(content, bytes) else {**content, member: after}
    return SmallSet(small.task, {**small.files, file: changed})


def test_every_reader_has_a_small_set():
    assert {make().task.reader for make in SMALL_SETS.values()} == set(READERS)


@pytest.mark.parametrize("name", SMALL_SETS)
def test_reading_twice_gives_the_same_and_only_float32(name: str, tmp_path: Path):
    small = SMALL_SETS[name]()
    first, second = read(small, tmp_path), read(small, tmp_path)
    assert torch.equal(first.examples.values, second.examples.values)
    assert first.examples.values.dtype == torch.float32
    test = READERS[str(small.task.reader)].test(small.task, tmp_path, first)
    assert test.values.shape[2] == first.examples.values.shape[2]
    assert test.targets.shape[1:] == first.examples.targets.shape[1:]


@pytest.mark.parametrize("name", SMALL_SETS)
def test_train_needs_no_file_of_test_alone(name: str, tmp_path: Path):
    small = SMALL_SETS[name]()
    folder = small.write(tmp_path)
    whole = READERS[str(small.task.reader)].train(small.task, folder)
    for file in set(small.task.files_test) - set(small.task.files_train):
        (folder / file.name).with_suffix(".tsv" if name == "tsv" else Path(file.name).suffix).unlink()
    alone = READERS[str(small.task.reader)].train(small.task, folder)
    assert torch.equal(alone.examples.values, whole.examples.values)


def test_sepsis_sequences_end_where_the_label_turns(tmp_path: Path):
    examples = read(clinical_2019(), tmp_path).examples
    assert examples.valid is not None
    assert examples.observed is not None
    assert examples.targets.tolist() == [0, 1]
    assert examples.valid.sum(dim=1).tolist() == [3, 2]  # the second patient's label turns in hour 2 of 4
    assert examples.values[1, 1, 39] == 2.0  # ICULOS
    assert examples.observed[0, 0].sum() == 5
    assert examples.values[0, 0, 1] == 81.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"SepsisLabel", b"Label", "line 1: the header is"),
        (b"81.5", b"8l.5", "line 2, column 5: '8l.5' is not a number"),
        (b"81.5|", b"", "line 2: 40 values where the header names 41"),
        (b"|0\n", b"|2\n", "line 2: SepsisLabel is neither 0 nor 1"),
    ],
)
def test_a_malformed_patient_is_refused_at_its_place(old: bytes, new: bytes, message: str, tmp_path: Path):
    small = edited(clinical_2019(), "training_setA.zip/training/p000001.psv", old, new)
    with pytest.raises(StudyError) as caught:
        read(small, tmp_path)
    assert message in str(caught.value)
    assert "training_setA.zip/p000001.psv" in str(caught.value)


def test_motion_windows_keep_to_one_activity(tmp_path: Path):
    train = read(motion(), tmp_path)
    assert train.classes == ("1", "4")
    assert train.examples.targets.tolist() == [0, 0, 1]  # five rows of 1 and three of 4, windows of two
    assert train.examples.values.shape == (3, 2, 31)
    assert train.examples.observed is not None
    assert not train.examples.observed[0, :, 0].any()  # the heart rate comes in every third row
    assert train.examples.values[2, :, 5].tolist() == [7.25, 8.25]
    assert train.validation is not None  # subject105
    assert train.validation.values[0, 0, 1] == 1 + 5 / 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"8.40 1 NaN", b"8.40 1", "line 3: 53 values where a row has 54"),
        (b"8.40 1 ", b"8.30 1 ", "line 3, column 1: the time is missing or lies before the row above"),
        (b"8.40 1 ", b"8.40 8 ", "line 3: 8 is not the number of an activity"),
        (b"8.40 1 ", b"8.40 nan ", "line 3: nan is not the number of an activity"),
    ],
)
def test_a_malformed_motion_file_is_refused_at_its_place(old: bytes, new: bytes, message: str, tmp_path: Path):
    with pytest.raises(StudyError) as caught:
        read(edited(motion(), "subject101.dat", old, new), tmp_path)
    assert message in str(caught.value)


def test_positions_are_single_readings_at_their_own_times(tmp_path: Path):
    train = read(positions(), tmp_path)
    assert train.classes == ("sitting", "walking")
    assert train.examples.values.shape == (9, 2, 12)  # three people, seven readings each, windows of two
    assert train.examples.targets.tolist() == [1, 1, 0] * 3  # the last reading decides
    assert train.examples.observed is not None
    assert train.examples.observed.sum(dim=2).unique().tolist() == [3]
    assert train.examples.time_delta is not None
    assert train.examples.time_delta[0].tolist() == pytest.approx([0.0, 0.027])
    assert train.validation is not None
    assert train.validation.values[0, 0, 1] == pytest.approx(1.68)  # person D


def test_positions_of_person_e_are_not_parsed_by_train(tmp_path: Path):
    small = edited(positions(), "ConfLongDemo_JSI.txt", b"E01,010-000-024-033", b"E01,no tag at all")
    train = read(small, tmp_path)
    with pytest.raises(StudyError, match="line 29, column 5: unknown tag 'no tag at all'"):
        READERS["localization"].test(small.task, tmp_path, train)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"A01,", b"F01,", "line 1, column 1: 'F01' is no recording from A01 to E05"),
        (b",633790226051280329,", b",soon,", "line 1, column 21: 'soon' is no time stamp"),
        (b"4.00,", b"4.0o,", "line 1, column 64: '4.0o' is not a number"),
        (b"4.00,", b"?,", "line 1, column 64: a coordinate is missing"),
        (b"4.00,", b"", "line 1: 7 fields where a row has 8"),
        (b"walking", b"flying", "line 1, column 79: unknown activity 'flying'"),
    ],
)
def test_a_malformed_position_is_refused_at_its_place(old: bytes, new: bytes, message: str, tmp_path: Path):
    with pytest.raises(StudyError) as caught:
        read(edited(positions(), "ConfLongDemo_JSI.txt", old, new), tmp_path)
    assert message in str(caught.value)


def test_all_activities_of_the_set_belong_to_seven_classes():
    assert len(localization.ACTIVITIES) == 11
    assert len(set(localization.ACTIVITIES.values())) == 7


def test_stations_predict_the_first_value_of_each_variable_after_150(tmp_path: Path):
    small = stations()
    train = read(small, tmp_path)
    test = READERS["ushcn"].test(small.task, tmp_path, train)
    assert train.validation is not None
    parts = (train.examples, train.validation, test)
    assert sum(map(len, parts)) == 19  # station 7 has no fifth value to predict
    for part in parts:
        assert part.time_delta is not None
        assert part.time_delta[0].tolist() == pytest.approx([0.1, 80.1, 69.8], rel=1e-6)  # in the order of time
    fold = ushcn.draw_fold(tmp_path, list(range(20)))
    at = fold.optimization.index(0)
    # Station 0 at 150.1 observes what (150 + i) % 3 leaves: variables 1, 2 and 4; the others come at 163.5.
    assert train.examples.targets[at].tolist() == pytest.approx([1.635, 2.501, 3.501, 4.635, 5.501])


def test_the_stations_are_divided_as_published():
    """By hand: numpy's permutation from seed 432, its first tenth TEST, then a fifth of the rest validation."""
    draw = np.random.RandomState(432)
    first = draw.permutation(1114)
    test, rest = first[:112], first[112:]
    validation = rest[draw.permutation(1002)[:201]]
    fold = ushcn.draw_fold(Path("x"), list(range(1114)))
    assert fold.test == sorted(test.tolist())
    assert fold.validation == sorted(validation.tolist())
    assert sorted(fold.optimization + fold.validation + fold.test) == list(range(1114))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"ID,Time", b"id,time", "line 1: the header is"),
        (b"\n0,80.2,", b"\nzero,80.2,", "line 2, column 1: 'zero' is not a station's number"),
        (b"\n0,80.2,", b"\n0,280.2,", "line 2, column 3: time 280.2 lies outside 0 ... 200"),
        (b"\n0,80.2,", b"\n0,80.2,1,", "line 2: 13 fields where the header names 12"),
        (b",0\n0,0.1", b",2\n0,0.1", "line 2: a mask is neither 0 nor 1"),
    ],
)
def test_a_malformed_station_is_refused_at_its_place(old: bytes, new: bytes, message: str, tmp_path: Path):
    with pytest.raises(StudyError) as caught:
        read(edited(stations(), "small_chunked_sporadic.csv", old, new), tmp_path)
    assert message in str(caught.value)


def test_pixels_come_row_by_row_with_their_three_colours(tmp_path: Path):
    small = images()
    train = read(small, tmp_path)
    members = small.files["cifar-10-binary.tar.gz"]
    assert not isinstance(members, bytes)
    record = members["cifar-10-batches-bin/data_batch_3.bin"]
    assert train.examples.values.shape == (5, 1024, 3)
    assert train.examples.targets.tolist() == [0, 1, 2, 3, 4]
    for pixel in (0, 33, 1023):
        assert train.examples.values[2, pixel].tolist() == [record[1 + pixel + 1024 * colour] for colour in range(3)]


def test_images_that_are_cut_off_or_of_no_class_are_refused(tmp_path: Path):
    small = images()
    members = dict(small.files["cifar-10-binary.tar.gz"])  # type: ignore[arg-type]
    name = "cifar-10-batches-bin/data_batch_2.bin"
    for content, message in (
        (members[name][:-1], "data_batch_2.bin has 3072 bytes, no multiple of 3073"),
        (b"\x0a" + members[name][1:], "image 2 has class 10, over 9"),
        (b"", "member data_batch_2.bin is absent or empty"),
    ):
        packed = pack("x.tar.gz", members | {name: content})
        with pytest.raises(StudyError, match=message):
            read(SmallSet(small.task, {"cifar-10-binary.tar.gz": packed}), tmp_path)


def test_vibration_is_found_in_the_files_of_all_three_sets(tmp_path: Path):
    small = vibration()
    train = read(small, tmp_path)
    signal = np.sin(np.arange(50.0)).astype(np.float32)
    assert train.classes == ("healthy", "inner 0.007", "outer")
    assert train.examples.targets.tolist() == [1] * 6 + [0] * 3 + [2] * 6  # the healthy one decimated by two
    assert np.array_equal(train.examples.values[:6].reshape(-1), signal[:48])
    assert np.array_equal(train.examples.values[9:].reshape(-1), signal[:48])
    test = READERS["mat-vibration"].test(small.task, tmp_path, train)
    assert np.array_equal(test.values.reshape(-1), 2 * signal[:48])


def test_recordings_named_by_the_option_validate(tmp_path: Path):
    folder = vibration().write(tmp_path)
    options = {"window": 8, "validation": ["108.mat"]}
    task = declare("V", "mat-vibration", ("105.mat", "108.mat"), ("baseline_1.mat",), options=options)
    train = READERS["mat-vibration"].train(task, folder)
    assert train.validation is not None
    assert (len(train.examples), len(train.validation)) == (6, 6)
    with pytest.raises(StudyError, match="label 'healthy' does not occur in TRAIN"):
        READERS["mat-vibration"].test(task, folder, train)
    task = declare("V", "mat-vibration", ("105.mat",), (), options={"validation": ["106.mat"]})
    with pytest.raises(StudyError, match="option validation must name some files of TRAIN, not all"):
        READERS["mat-vibration"].train(task, folder)


@pytest.mark.parametrize(
    ("stem", "label"),
    [
        ("97", "healthy"),
        ("108", "inner 0.007"),
        ("237", "outer 0.021"),
        ("OuterRaceFault_vload_6", "outer"),
        ("N15_M07_F10_KI14_20", "inner"),
    ],
)
def test_a_recording_has_the_class_that_its_name_stands_for(stem: str, label: str):
    assert mat_vibration.recording_class(stem) == label


def test_a_recording_without_a_class_or_a_signal_is_refused(tmp_path: Path):
    with pytest.raises(StudyError, match=r"101\.mat is no recording of CWRU, MFPT or Paderborn"):
        mat_vibration.recording_class("101")
    path = tmp_path / "105.mat"
    for content in ({"X105_FE_time": np.ones(9)}, {"X105_DE_time": np.array([1.0, np.inf])}, {"X105_DE_time": "text"}):
        savemat(path, content)
        with pytest.raises(StudyError, match=r"105\.mat: .*; fetch it again"):
            mat_vibration.read_signal(path)


def test_a_file_that_holds_a_neighbours_recording_too_gives_its_own(tmp_path: Path):
    savemat(tmp_path / "99.mat", {"X098_DE_time": np.ones(9), "X099_DE_time": 2 * np.ones(9)})
    assert (mat_vibration.read_signal(tmp_path / "99.mat") == 2).all()
