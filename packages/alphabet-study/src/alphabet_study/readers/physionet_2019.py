"""PhysioNet 2019: hourly records of intensive care, and whether sepsis follows within hours.

TRAIN is training set A and TEST is training set B, two hospitals, each a zip of one `.psv` table per patient: a row per
hour, 40 variables, and a label that turns 1 six hours before sepsis begins. The paper does not say how it made one
example of a patient. Ours: the label is whether SepsisLabel ever turns 1; the sequence ends with the hour in which it
first does, so that nothing of what follows is seen, and has at most its last 60 hours. Examples are in the order of the
patients' names.
"""

import re
from pathlib import Path

import numpy as np
import torch
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.archives import read_zip
from alphabet_study.readers.numbers import parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

HOURS = 60
CHANNELS = (
    "HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp", "EtCO2", "BaseExcess", "HCO3", "FiO2", "pH", "PaCO2", "SaO2",
    "AST", "BUN", "Alkalinephos", "Calcium", "Chloride", "Creatinine", "Bilirubin_direct", "Glucose", "Lactate",
    "Magnesium", "Phosphate", "Potassium", "Bilirubin_total", "TroponinI", "Hct", "Hgb", "PTT", "WBC", "Fibrinogen",
    "Platelets", "Age", "Gender", "Unit1", "Unit2", "HospAdmTime", "ICULOS",
)  # fmt: skip
CLASSES = ("0", "1")
_HEADER = "|".join((*CHANNELS, "SepsisLabel")).encode()
_MEMBER = re.compile(r"p\d{5,7}\.psv")


def train(task: Task, folder: Path) -> TrainData:
    """All patients of set A, with the classes "0" and "1" (sepsis)."""
    return TrainData(_read_set(task, task.files_train, folder, task.train_size), CLASSES)


def test(task: Task, folder: Path, train: TrainData) -> Examples:  # noqa: ARG001 - the classes are fixed
    """All patients of set B."""
    return _read_set(task, task.files_test, folder, task.test_size)


READER = Reader(train, test)


def _read_set(task: Task, files: tuple[DataFile, ...], folder: Path, size: int | None) -> Examples:
    path = declared_file(task, files, folder, suffix=".zip")
    patients = {
        name: read_patient(path / name, content)
        for name, content in read_zip(path, lambda name: _MEMBER.fullmatch(name) is not None)
    }
    if not patients:
        raise malformed(path, "no member such as p000001.psv", "fetch it again")
    check_declared(task, path, "patients", len(patients), size)
    check_declared(task, path, "channels", len(CHANNELS), task.channels)
    check_declared(task, path, "classes", len(CLASSES), task.outputs)
    series, labels = zip(*(patients[name] for name in sorted(patients)), strict=True)
    return stack_series(path, series, torch.tensor(labels))


def read_patient(path: Path, content: bytes) -> tuple[NDArray[np.float32], int]:
    """The hours (T, 40) up to the first with a positive label, at most the last 60, and whether there is one."""
    lines = content.rstrip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")
    if lines[0] != _HEADER:
        raise malformed(path, f"the header is {excerpt(lines[0])}, not that of the challenge's 41 columns", line=1)
    rows = []
    for number, line in enumerate(lines[1:], 2):
        row = parse_numbers(path, line, b"|", line=number)
        if len(row) != len(CHANNELS) + 1:
            raise malformed(path, f"{len(row)} values where the header names {len(CHANNELS) + 1}", line=number)
        if row[-1] not in (0.0, 1.0):
            raise malformed(path, "SepsisLabel is neither 0 nor 1", line=number)
        rows.append(row)
    if not rows:
        raise malformed(path, "a header and no hour", line=1)
    table = np.stack(rows)
    septic = table[:, -1] == 1.0
    last = int(septic.argmax()) + 1 if septic.any() else len(table)
    series = table[max(0, last - HOURS) : last, :-1]
    if np.isnan(series).all():
        raise malformed(path, "every value of this patient is missing", "leave the patient out")
    return series, int(septic.any())
