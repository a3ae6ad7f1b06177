"""Vibration of bearings in MATLAB files, as three sets publish it: one recording per file, one class per recording.

CWRU        `97.mat`: the variable that ends in DE_time; the number stands for the fault and its diameter.
MFPT        `baseline_1.mat`: the field gs of the variable bearing; the name begins with the fault. Recordings at twice
            the rate of the others (97,656 Hz) are decimated by two, or the rate alone would tell the healthy ones.
Paderborn   `N15_M07_F10_KA01_1.mat`: the element vibration_1 of the field Y; K0 is healthy, KA is the outer ring, KI
            the inner one.

An example is a window of `window` (1,024) samples, without overlap; what is left at the end is not used. Recordings are
divided by the declaration: files_train and files_test; files that the option `validation` names are validation.
"""

import re
from pathlib import Path

import numpy as np
from alphabet_core import Examples
from numpy.typing import NDArray
from scipy.signal import decimate

from alphabet_study.data import Reader, TrainData
from alphabet_study.errors import StudyError
from alphabet_study.readers.labels import index_labels, sorted_classes
from alphabet_study.readers.mat5 import Content, read_mat5
from alphabet_study.readers.places import (
    check_declared,
    malformed,
    positive_option,
    split_validation,
)
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

# CWRU's first number of the four loads of each fault: at the drive end, 12 kHz, outer ring at 6 o'clock.
CWRU = {
    97: "healthy",
    105: "inner 0.007",
    118: "ball 0.007",
    130: "outer 0.007",
    169: "inner 0.014",
    185: "ball 0.014",
    197: "outer 0.014",
    209: "inner 0.021",
    222: "ball 0.021",
    234: "outer 0.021",
}
MFPT = {"baseline": "healthy", "OuterRaceFault": "outer", "InnerRaceFault": "inner"}
PADERBORN = {"K0": "healthy", "KA": "outer", "KI": "inner"}
MFPT_FAST = 97_656
# The filter of the decimation needs more samples than this at either end.
SHORTEST = 27
_PADERBORN_NAME = re.compile(r"N\d\d_M\d\d_F\d\d_(K[0AI])\d\d_\d+")


def train(task: Task, folder: Path) -> TrainData:
    """The windows of the recordings of TRAIN, of some of them as validation."""
    optimization, validation = split_validation(task)
    series, labels = _read_recordings(task, optimization, folder)
    classes = sorted_classes(labels)
    check_declared(task, folder, "classes", len(classes), task.outputs)
    held_out = _read_recordings(task, validation, folder) if validation else None
    return TrainData(
        stack_series(folder, series, index_labels(folder, labels, classes)),
        classes,
        None if held_out is None else stack_series(folder, held_out[0], index_labels(folder, held_out[1], classes)),
    )


def test(task: Task, folder: Path, train: TrainData) -> Examples:
    """The windows of the recordings of TEST."""
    series, labels = _read_recordings(task, task.files_test, folder)
    return stack_series(folder, series, index_labels(folder, labels, train.classes))


READER = Reader(train, test)


def _read_recordings(
    task: Task, files: tuple[DataFile, ...], folder: Path
) -> tuple[list[NDArray[np.float32]], list[str]]:
    window = positive_option(task, "window", 1024)
    series, labels = [], []
    for file in files:
        path = folder / file.name
        label = recording_class(path.stem)
        signal = read_signal(path)
        if len(signal) < window:
            raise malformed(
                path, f"{len(signal)} samples, too few for a window of {window}", "shorten the option window"
            )
        for first in range(0, len(signal) - window + 1, window):
            series.append(signal[first : first + window, None])
            labels.append(label)
    if not series:
        raise StudyError(f"task {task.name} declares no recordings in this part; declare its files")
    return series, labels


def recording_class(stem: str) -> str:
    """The class that a recording's name stands for."""
    if stem.isdecimal():
        for first, label in CWRU.items():
            if first <= int(stem) < first + 4:
                return label
    for beginning, label in MFPT.items():
        if stem.startswith(beginning):
            return label
    if match := _PADERBORN_NAME.fullmatch(stem):
        return PADERBORN[match[1]]
    raise StudyError(f"{stem}.mat is no recording of CWRU, MFPT or Paderborn that has a class; correct the declaration")


def read_signal(path: Path) -> NDArray[np.float32]:
    """The samples (T,) of one recording."""
    found = _find_signal(path.stem, read_mat5(path))
    if not isinstance(found, np.ndarray):
        raise malformed(path, "no vibration signal as CWRU, MFPT or Paderborn publish it", "fetch it again")
    with np.errstate(over="ignore"):
        signal = found.astype(np.float32)
    if not len(signal) or not np.isfinite(signal).all():
        raise malformed(path, "the signal is empty or not finite", "fetch it again")
    return signal


def _find_signal(stem: str, variables: dict[str, Content]) -> Content:
    """The numbers of the vibration signal, or something else where there is none."""
    bearing, recording = variables.get("bearing"), variables.get(stem)
    own = f"X{stem.zfill(3)}_DE_time"  # some of CWRU's files hold a neighbour's recording too
    if isinstance(bearing, list) and len(bearing) == 1:
        signal, rate = bearing[0].get("gs"), bearing[0].get("sr")
        fast = isinstance(rate, np.ndarray) and rate.tolist() == [MFPT_FAST]
        if not fast or not isinstance(signal, np.ndarray):
            return signal
        return decimate(signal, 2) if len(signal) > SHORTEST else None
    if isinstance(recording, list) and len(recording) == 1:
        elements = recording[0].get("Y")
        signals = [
            one.get("Data") for one in elements or () if isinstance(one, dict) and one.get("Name") == "vibration_1"
        ]
    elif own in variables:
        signals = [variables[own]]
    else:
        signals = [content for name, content in variables.items() if name.endswith("DE_time")]
    return signals[0] if len(signals) == 1 else None
