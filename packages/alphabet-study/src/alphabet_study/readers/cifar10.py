"""CIFAR-10 as sequences: 1,024 pixels, row by row, of three colours from 0 to 255.

The file is the binary version, `cifar-10-binary.tar.gz`: TRAIN is its five data batches, TEST its test batch. An image
is one byte for the class and 3,072 for the pixels, colour by colour. The Python version holds pickles, which run code
when they are opened, and is not read.
"""

from pathlib import Path

import numpy as np
import torch
from alphabet_core import Examples

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.archives import read_tar
from alphabet_study.readers.places import check_declared, declared_file, malformed
from alphabet_study.registry.task import DataFile, Task

PIXELS, COLOURS, CLASSES = 1024, 3, tuple("0123456789")
RECORD = 1 + PIXELS * COLOURS
TRAIN_BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_BATCHES = ("test_batch.bin",)


def train(task: Task, folder: Path) -> TrainData:
    """The images of the five data batches."""
    return TrainData(_read_batches(task, task.files_train, folder, TRAIN_BATCHES, task.train_size), CLASSES)


def test(task: Task, folder: Path, train: TrainData) -> Examples:  # noqa: ARG001 - the classes are fixed
    """The images of the test batch."""
    return _read_batches(task, task.files_test, folder, TEST_BATCHES, task.test_size)


READER = Reader(train, test)


def _read_batches(
    task: Task, files: tuple[DataFile, ...], folder: Path, names: tuple[str, ...], size: int | None
) -> Examples:
    path = declared_file(task, files, folder, suffix=".tar.gz")
    batches = dict(read_tar(path, lambda name: name in names))
    for name in names:
        if not batches.get(name):
            raise malformed(path, f"member {name} is absent or empty", "fetch it again; take the binary version")
        if len(batches[name]) % RECORD:
            raise malformed(path, f"{name} has {len(batches[name])} bytes, no multiple of {RECORD}", "fetch it again")
    records = np.frombuffer(b"".join(batches[name] for name in names), dtype=np.uint8).reshape(-1, RECORD)
    check_declared(task, path, "images", len(records), size)
    wrong = np.flatnonzero(records[:, 0] >= len(CLASSES))
    if len(wrong):
        raise malformed(path, f"image {wrong[0] + 1} has class {records[wrong[0], 0]}, over 9", "fetch it again")
    pixels = records[:, 1:].reshape(-1, COLOURS, PIXELS).transpose(0, 2, 1).astype(np.float32)
    return Examples(torch.from_numpy(np.ascontiguousarray(pixels)), torch.from_numpy(records[:, 0].astype(np.int64)))
