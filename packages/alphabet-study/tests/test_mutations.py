"""20,000 damaged files: each is refused with a StudyError or read completely, by the word of an independent oracle.

The oracle re-reads the damaged text in the plainest way, without any check, and lists what must be there: how many
examples, and every observed value in order. It is asked only when the reader has accepted the file.
"""

import gzip
import io
import random
import resource
import struct
import tarfile
import zipfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from alphabet_core import Examples
from alphabet_study.data import TrainData
from alphabet_study.errors import StudyError
from alphabet_study.readers import READERS, cifar10, localization, pamap2, physionet_2012, ushcn
from alphabet_testing.study_damage import damage
from alphabet_testing.study_files import SMALL_SETS, SmallSet

# How many files of each format are damaged: more of those that are read most, fewer where reading takes longer.
COUNTS = {
    "ts": 4000,
    "ts, unequal and missing": 5000,
    "tsv": 2000,
    "forecasting csv": 1500,
    "forecasting csv by shares": 1000,
    "physionet 2012": 2500,
    "physionet 2019": 1000,
    "pamap2": 700,
    "localization": 800,
    "ushcn": 400,
    "cifar10": 600,
    "mat": 500,
}
Numbers = list[float]
# What must be read of a part: the number of examples, and all observed values, example by example, step by step.
Expected = tuple[int, Numbers | None]


def lines_of(folder: Path, small: SmallSet, part: str, suffix: str = "") -> list[str]:
    files = small.task.files_train if part == "train" else small.task.files_test
    (path,) = [folder / file.name for file in files if file.name.endswith(suffix)]
    path = path if path.exists() else path.with_suffix(".tsv")
    text = path.read_bytes().decode("latin-1").removeprefix("ï»¿")
    return [line.removesuffix("\r") for line in text.rstrip("\n\r\t \v\f").split("\n")]


def number(token: str) -> float:
    return float("nan") if token.strip() == "?" else float(np.float32(float(token)))


def present(numbers: Numbers) -> Numbers:
    return [one for one in numbers if one == one]


def expect_ts(folder: Path, small: SmallSet, part: str) -> Expected:
    lines = lines_of(folder, small, part)
    (start,) = [at for at, line in enumerate(lines) if line.strip().lower().startswith("@data")][:1]
    cases = [[channel.split(",") for channel in line.split(":")[:-1]] for line in lines[start + 1 :]]
    return len(cases), present([number(token) for case in cases for step in zip(*case, strict=True) for token in step])


def expect_tsv(folder: Path, small: SmallSet, part: str) -> Expected:
    rows = [line.split("\t")[1:] for line in lines_of(folder, small, part)]
    return len(rows), present([number(token) for row in rows for token in row])


def expect_csv(folder: Path, small: SmallSet, part: str) -> Expected:
    rows = [list(map(number, line.split(",")[1:])) for line in lines_of(folder, small, part)[1:]]
    first, middle, last = small.task.options.get("rows", (0, 0, 0))
    if "shares" in small.task.options:
        first, last = len(rows) // 2, len(rows) // 4
        middle = len(rows) - first - last
    start, count = {"train": (0, first), "validation": (first, middle), "test": (first + middle, last)}[part]
    windows = [rows[at : at + 3] for at in range(start, start + count - 4)]
    return len(windows), [one for window in windows for row in window for one in row]


def expect_2012(folder: Path, small: SmallSet, part: str) -> Expected:
    outcomes = [line.split(",")[0] for line in lines_of(folder, small, part, ".txt")[1:]]
    name = "set-a" if part == "train" else "set-c"
    found: Numbers = []
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        members = {Path(member.name).stem: member for member in archive if member.isfile()}
        for record in outcomes:
            file = archive.extractfile(members[record])
            assert file is not None
            rows = [line.strip("\r").split(",") for line in file.read().decode("latin-1").rstrip("\r\n").split("\n")]
            cells = {
                (time, physionet_2012.CHANNELS.index(parameter)): number(value)
                for time, parameter, value in rows[1:]
                if parameter in physionet_2012.CHANNELS
                and number(value) not in (-1.0,)
                and number(value) == number(value)
            }
            found += [cells[cell] for cell in sorted(cells)]
    return len(outcomes), found


def expect_2019(folder: Path, small: SmallSet, part: str) -> Expected:
    name = "training_setA.zip" if part == "train" else "training_setB.zip"
    found: Numbers = []
    with zipfile.ZipFile(folder / name) as archive:
        members = sorted(member.filename for member in archive.infolist())
        for member in members:
            text = archive.read(member).decode("latin-1").rstrip("\r\n")
            rows = [list(map(number, line.strip("\r").split("|"))) for line in text.split("\n")[1:]]
            labels = [row[-1] for row in rows]
            end = labels.index(1.0) + 1 if 1.0 in labels else len(rows)
            found += present([one for row in rows[:end] for one in row[:-1]])
    return len(members), found


def expect_motion(folder: Path, small: SmallSet, part: str) -> Expected:
    name = {"train": "subject101.dat", "validation": "subject105.dat", "test": "subject106.dat"}[part]
    text = (folder / name).read_bytes().decode("latin-1").rstrip()
    rows = [list(map(number, line.split(" "))) for line in text.replace("\r", "").split("\n")]
    count, found = 0, []
    for activity, run in groupby(rows, key=lambda row: row[1]):
        kept = list(run) if activity else []
        count += len(kept) // 2
        found += present([row[column] for row in kept[: len(kept) // 2 * 2] for column in pamap2.CHANNELS])
    return count, found


def expect_positions(folder: Path, small: SmallSet, part: str) -> Expected:
    people = {"train": "ABC", "validation": "D", "test": "E"}[part]
    rows = [line.split(",") for line in lines_of(folder, small, part)]
    count, found = 0, []
    for name in sorted({row[0] for row in rows if row[0][0] in people}):
        own = sorted((row for row in rows if row[0] == name), key=lambda row: int(row[2]))
        count += len(own) // 2
        found += [number(token) for row in own[: len(own) // 2 * 2] for token in row[4:7]]
    assert set(localization.TAGS) >= {row[1].encode() for row in rows if row[0][0] in people}
    return count, found


def expect_stations(folder: Path, small: SmallSet, part: str) -> Expected:
    rows = [line.split(",") for line in lines_of(folder, small, part)[1:]]
    tables: dict[int, list[Numbers]] = {}
    for name, *rest in rows:
        tables.setdefault(int(name.removesuffix(".0")), []).append(list(map(number, rest)))
    fold = ushcn.draw_fold(folder, list(tables))
    stations = {"train": fold.optimization, "validation": fold.validation, "test": fold.test}[part]
    count, found = 0, []
    for station in stations:
        table = sorted(tables[station], key=lambda row: row[0])
        given = [row[1 + i] for row in table if row[0] <= 150 for i in range(5) if row[6 + i] == 1]
        later = [i for row in table if row[0] > 150 for i in range(5) if row[6 + i] == 1]
        if given and len(set(later)) == 5:
            count, found = count + 1, found + given
    return count, found


def expect_images(folder: Path, small: SmallSet, part: str) -> Expected:
    unpacked = gzip.decompress((folder / "cifar-10-binary.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        names = cifar10.TRAIN_BATCHES if part == "train" else cifar10.TEST_BATCHES
        members = {Path(member.name).name: member for member in archive}
        content = b"".join(archive.extractfile(members[name]).read() for name in names)  # type: ignore[union-attr]
    pixels = [content[at + 1 : at + 3073] for at in range(0, len(content), 3073)]
    return len(pixels), [float(one[k + 1024 * c]) for one in pixels for k in range(1024) for c in range(3)]


def expect_vibration(folder: Path, small: SmallSet, part: str) -> Expected:
    """Six windows of each recording of 50 samples, or three where it is decimated; any sample may have been damaged."""
    fast = struct.pack("<I", 97656) in (folder / "baseline_1.mat").read_bytes()
    return (6, None) if part == "test" else (15 if fast else 18, None)


ORACLES: dict[str, Callable[[Path, SmallSet, str], Expected]] = {
    "ts": expect_ts,
    "ts, unequal and missing": expect_ts,
    "tsv": expect_tsv,
    "forecasting csv": expect_csv,
    "forecasting csv by shares": expect_csv,
    "physionet 2012": expect_2012,
    "physionet 2019": expect_2019,
    "pamap2": expect_motion,
    "localization": expect_positions,
    "ushcn": expect_stations,
    "cifar10": expect_images,
    "mat": expect_vibration,
}


def check_complete(examples: Examples, expected: Expected) -> None:
    """Everything that was expected is there, finite, and nothing else is."""
    values, observed, valid = examples.values, examples.observed, examples.valid
    assert len(examples) > 0
    assert values.numel() > 0
    assert values.isfinite().all()
    assert examples.targets.isfinite().all()
    present = torch.ones_like(values, dtype=torch.bool)
    if valid is not None:
        assert valid.any(dim=1).all()
        present &= valid[:, :, None]
    if observed is not None:
        assert not (observed & ~present).any()
        present &= observed
    assert not values[~present].any()
    if examples.time_delta is not None:
        assert examples.time_delta.isfinite().all()
        assert (examples.time_delta >= 0).all()
    count, numbers = expected
    assert len(examples) == count
    assert numbers is None or values[present].tolist() == numbers


def check_read(name: str, small: SmallSet, folder: Path, pristine: TrainData, *, train: bool, test: bool) -> bool:
    """Read what was damaged; whether it was accepted. Only a StudyError may refuse it."""
    reader = READERS[str(small.task.reader)]
    refusal = None
    try:
        data = reader.train(small.task, folder) if train else pristine
        opened = reader.test(small.task, folder, data) if test else None
    except StudyError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith(str(folder))
        assert "; " in refusal  # a remedy follows
        return False
    if train:
        check_complete(data.examples, ORACLES[name](folder, small, "train"))
        if data.validation is not None:
            check_complete(data.validation, ORACLES[name](folder, small, "validation"))
    if opened is not None:
        check_complete(opened, ORACLES[name](folder, small, "test"))
    return True


def test_twenty_thousand_files_are_damaged():
    assert sum(COUNTS.values()) == 20_000
    assert set(COUNTS) == set(SMALL_SETS) == set(ORACLES)


@pytest.mark.parametrize("name", SMALL_SETS)
def test_the_oracle_agrees_on_whole_files_and_notices_what_is_lost(name: str, tmp_path: Path):
    small = SMALL_SETS[name]()
    pristine = READERS[str(small.task.reader)].train(small.task, small.write(tmp_path))
    assert check_read(name, small, tmp_path, pristine, train=True, test=True)
    expected = ORACLES[name](tmp_path, small, "train")
    with pytest.raises(AssertionError):
        check_complete(pristine.examples.take(slice(1, None)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL_SETS)
def test_damaged_files_are_refused_or_read_completely(name: str, tmp_path: Path):
    draw = random.Random(f"damage to {name}")
    small = SMALL_SETS[name]()
    folder = small.write(tmp_path)
    pristine = READERS[str(small.task.reader)].train(small.task, folder)
    names_of_train = {file.name for file in small.task.files_train}
    names_of_test = {file.name for file in small.task.files_test}
    accepted = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(COUNTS[name]):
        file = draw.choice(list(small.files))
        path = folder / file
        whole = path.read_bytes()
        path.write_bytes(damage(file, small.files[file], draw))
        declared = file.replace(".tsv", ".ts")
        touched = {"train": declared in names_of_train, "test": declared in names_of_test}
        accepted += check_read(name, small, folder, pristine, **touched)
        path.write_bytes(whole)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * 1024, f"reading small files took {grown >> 10} MiB more at its peak"
    assert 0 < accepted < COUNTS[name]  # some damage is harmless, most is not
