"""PhysioNet 2012: minutes as they are, what was observed and nothing else, every record with its outcome."""

import os
from pathlib import Path

import pytest
import torch
from alphabet_core import Examples
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS
from alphabet_study.readers.physionet_2012 import CHANNELS, STEPS, read_record
from alphabet_testing.study_files import SmallSet, clinical_2012, declare, pack

DATA = os.environ.get("ALPHABET_DATA", "")
READER = READERS["physionet-2012"]
START = "Time,Parameter,Value\n00:00,RecordID,1\n"


def read(folder: Path) -> tuple[Examples, Examples]:
    small = clinical_2012()
    train = READER.train(small.task, small.write(folder))
    assert train.classes == ("0", "1")
    return train.examples, READER.test(small.task, folder, train)


def observations(examples: Examples, record: int) -> dict[tuple[int, str], float]:
    """The observed values of a record by step and channel's name."""
    assert examples.observed is not None
    return {
        (int(step), CHANNELS[channel]): float(examples.values[record, step, channel])
        for step, channel in examples.observed[record].nonzero().tolist()
    }


def test_each_minute_is_a_step_with_what_was_observed_in_it(tmp_path: Path):
    train, _ = read(tmp_path)
    assert train.values.shape == (3, STEPS, 37)
    assert train.valid is not None
    assert train.time_delta is not None
    assert train.valid.sum(dim=1).tolist() == [4, 1, 4]
    expected = {(0, "Weight"): 80.5, (1, "HR"): 73.0, (1, "Temp"): 35.1, (2, "HR"): 78.0, (3, "pH"): 7.4}
    assert observations(train, 0) == pytest.approx(expected)  # of two heart rates in a minute the last
    assert train.time_delta[0, :5].tolist() == pytest.approx([0, 7 / 60, 0.5, 53 / 60, 0])
    assert train.targets.tolist() == [1, 0, 1]
    assert train.targets.dtype == torch.int64


def test_minus_one_is_missing_and_zero_is_a_value(tmp_path: Path):
    train, _ = read(tmp_path)
    assert observations(train, 1) == {}  # nothing but descriptors, Weight -1 among them: one step, nothing observed
    assert observations(train, 2) == {(1, "Urine"): 0.0, (3, "NISysABP"): 130.0}
    assert train.time_delta is not None
    assert train.time_delta[2].sum() == 48.0


def test_a_later_minus_one_does_not_hide_a_measurement():
    _, values = read_record(Path("r"), f"{START}00:05,HR,70\n00:05,HR,-1\n".encode(), "1")
    assert values[1, CHANNELS.index("HR")] == 70.0


def test_nameless_measurements_are_ignored_minute_included(tmp_path: Path):
    _, test = read(tmp_path)
    assert test.valid is not None
    assert test.valid.sum(dim=1).tolist() == [2, 3]
    assert observations(test, 0) == {(0, "Weight"): 60.0, (1, "GCS"): 15.0}


def test_what_lies_beyond_208_steps_is_cut_off_at_the_end():
    lines = "".join(f"{minute // 60:02}:{minute % 60:02},HR,{minute}\n" for minute in range(1, 301))
    hours, values = read_record(Path("r"), (START + lines).encode(), "1")
    assert values.shape == (STEPS, 37)
    assert values[-1, CHANNELS.index("HR")] == STEPS - 1
    assert hours[-1] == (STEPS - 1) / 60


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("00:07,Pulse,3\n", "line 3, column 7: unknown parameter 'Pulse'; only the challenge's 37 series"),
        ("00:07,HR,fast\n", "line 3, column 10: 'fast' is not a number"),
        ("00:07,HR,1e39\n", "line 3, column 10: '1e39' is infinite"),
        ("00:07,HR,\n", "line 3, column 10: nothing stands where a number must be"),
        ("00:07,HR\n", "line 3: '00:07,HR' is not a time, a parameter and a value"),
        ("00:07,HR,1,2\n", "line 3: '00:07,HR,1,2' is not a time"),
        ("\n00:07,HR,1\n", "line 3: '' is not a time"),
        ("7:00,HR,1\n", "line 3, column 1: '7:00' is no time from 00:00 to 48:00"),
        ("48:01,HR,1\n", "line 3, column 1: '48:01' is no time"),
        ("01:00,HR,1\n00:59,HR,1\n", "line 4, column 1: '00:59' lies before the line above"),
        ("00:00,RecordID,2\n", "RecordID is '1', '2', the file's name says 1"),
    ],
)
def test_a_malformed_record_is_refused_at_its_place(lines: str, message: str, tmp_path: Path):
    small = clinical_2012()
    members = {"set-a/1.txt": (START + lines).encode()}
    outcomes = b"RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n1,6,1,5,-1,0\n"
    SmallSet(small.task, {**small.files, "set-a.tar.gz": members, "Outcomes-a.txt": outcomes}).write(tmp_path)
    with pytest.raises(StudyError) as caught:
        READER.train(small.task, tmp_path)
    assert message in str(caught.value)
    assert "set-a.tar.gz/1.txt" in str(caught.value)


def test_records_and_outcomes_must_match(tmp_path: Path):
    small = clinical_2012()
    folder = small.write(tmp_path)
    members = dict(small.files["set-a.tar.gz"])  # type: ignore[arg-type]
    (folder / "set-a.tar.gz").write_bytes(pack("set-a.tar.gz", {"set-a/1.txt": members["set-a/1.txt"]}))
    with pytest.raises(StudyError, match="2 of 3 records are absent, 2 first; fetch the archive again"):
        READER.train(small.task, folder)
    (folder / "set-a.tar.gz").write_bytes(pack("set-a.tar.gz", members | {"set-a/9.txt": b"x"}))
    with pytest.raises(StudyError, match=r"record '9' has no outcome in Outcomes-a\.txt"):
        READER.train(small.task, folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RecordID,In-hospital_death\n1,0\n", "line 1: the header is 'RecordID,In-hospital_death'"),
        ("{header}\n1,6,1,5,-1,2\n", "line 2: '1,6,1,5,-1,2' is not five integers and a 0 or 1"),
        ("{header}\n1,6,1,5,-1,0\n1,6,1,5,-1,1\n", "line 3, column 1: record 1 comes a second time"),
        ("{header}\n", "line 1: a header and no outcome"),
    ],
)
def test_malformed_outcomes_are_refused_at_their_place(text: str, message: str, tmp_path: Path):
    small = clinical_2012()
    folder = small.write(tmp_path)
    header = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
    (folder / "Outcomes-a.txt").write_text(text.format(header=header))
    with pytest.raises(StudyError) as caught:
        READER.train(small.task, folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_an_archive_that_is_cut_off_is_refused(kept: float, tmp_path: Path):
    small = clinical_2012()
    path = small.write(tmp_path) / "set-a.tar.gz"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(StudyError, match="not a complete gzip archive"):
        READER.train(small.task, tmp_path)


@pytest.mark.slow
def test_the_real_sets_have_the_published_sizes():
    folder = Path(DATA) / "General" / "PhysioNet-2012"
    if not DATA or not (folder / "set-c.tar.gz").is_file():
        pytest.skip("set ALPHABET_DATA to a folder with General/PhysioNet-2012")
    files = [(f"set-{letter}.tar.gz", f"Outcomes-{letter}.txt") for letter in "ac"]
    task = declare("P12", "physionet-2012", *files, channels=37, outputs=2, train_size=4000, test_size=4000)
    train = READER.train(task, folder)
    test = READER.test(task, folder, train)
    for examples, deaths, longest in ((train.examples, 554, 203), (test, 585, STEPS)):
        assert examples.valid is not None
        assert examples.time_delta is not None
        assert int(examples.targets.sum()) == deaths
        assert int(examples.valid.sum(dim=1).max()) == longest
        assert int(examples.valid.sum(dim=1).min()) >= 1
        assert examples.values.isfinite().all()
        assert float(examples.time_delta.sum(dim=1).max()) == pytest.approx(48.0, abs=1e-4)
