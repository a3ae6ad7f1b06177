"""What a task is: the declaration of one data set, its split, its metrics and its files."""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from alphabet_study.errors import StudyError

OBJECTIVES = ("classification", "multilabel", "forecasting")
# The loss by which each objective is optimized.
LOSS_OF_OBJECTIVE = {"classification": "cross_entropy", "multilabel": "multilabel", "forecasting": "mse"}
# The metrics by name, with the direction in which they improve.
DIRECTIONS = {
    "balanced_accuracy": "max",
    "accuracy": "max",
    "macro_f1": "max",
    "auroc": "max",
    "auprc": "max",
    "mse": "min",
}
# Where validation comes from: a stratified fifth of TRAIN, or the part that the task itself sets aside.
SPLITS = ("stratified", "predefined")
# What the frozen configuration's final training does: all of TRAIN for the median number of epochs, or the optimization
# fold again with the checkpoint of the lowest validation loss.
FINAL_TRAININGS = ("full-train", "checkpoint")


@dataclass(frozen=True)
class DataFile:
    """One file of a task: its path below the data root, its SHA-256 where known, its address where it can be fetched.

    A path reads SUITE/TASK/FILE, such as UCR/GunPoint/GunPoint_TRAIN.ts: all files of a task lie in one folder. member
    is the name inside the zip file at the address, where the file is published in one; sha256 is the file's own.
    contents is the digest of what a tar archive holds (`alphabet_study.data_root.contents_digest`), for archives that
    several people packed from the same files.
    """

    path: str
    sha256: str | None = None
    address: str | None = None
    member: str | None = None
    contents: str | None = None

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if not path.name or path.is_absolute() or ".." in path.parts or "\\" in self.path:
            raise StudyError(f"a file's path must lie below the data root, such as SUITE/TASK/FILE; got {self.path!r}")
        for name, digest in (("sha256", self.sha256), ("contents", self.contents)):
            if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
                raise StudyError(f"{self.path}: {name} must be 64 hexadecimal digits in lower case; got {digest!r}")
        if self.address is not None and not self.address.startswith(("http://", "https://")):
            raise StudyError(f"{self.path}: an address must start with http:// or https://; got {self.address!r}")
        if self.member is not None and self.address is None:
            raise StudyError(f"{self.path}: member {self.member!r} needs the address of the zip file that holds it")

    @property
    def name(self) -> str:
        """The file's name without folders."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class Task:
    """The declaration of one task, as its suite's file has it.

    metric is reported on TEST, selection_metric chooses configurations on validation. outputs is the number of classes,
    labels, or horizon x target channels; length is the longest sequence's; train_size counts validation too where the
    task sets it aside; any of these numbers is None where nobody has counted it. reader names an entry of
    `alphabet_study.readers.READERS`; where a task has none, no_reader says why in one line. files_train and files_test
    are disjoint unless the format keeps both in one file. embedded: aeon's bundled name, for the tasks that need no
    download. options are the reader's.
    """

    name: str
    suite: str
    title: str
    objective: str
    metric: str
    selection_metric: str
    split: str
    final_training: str
    channels: int | None
    length: int | None
    outputs: int | None
    train_size: int | None
    test_size: int | None
    source: str
    citation: str
    reader: str | None = None
    no_reader: str | None = None
    files_train: tuple[DataFile, ...] = ()
    files_test: tuple[DataFile, ...] = ()
    embedded: str | None = None
    licence: str = "none stated"
    standardize: bool = True
    irregular: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("objective", self.objective, OBJECTIVES),
            ("metric", self.metric, tuple(DIRECTIONS)),
            ("selection_metric", self.selection_metric, tuple(DIRECTIONS)),
            ("split", self.split, SPLITS),
            ("final_training", self.final_training, FINAL_TRAININGS),
        ):
            if value not in known:
                raise StudyError(f"task {self.name}: {name} must be one of {', '.join(known)}; got {value!r}")
        if (self.reader is None) == (self.no_reader is None):
            raise StudyError(f"task {self.name}: declare either a reader or, in one line, why there is none")

    @property
    def direction(self) -> str:
        """The direction, "max" or "min", in which the reported metric improves."""
        return DIRECTIONS[self.metric]

    @property
    def loss(self) -> str:
        """The loss by which models are trained on this task, one of the core's."""
        return LOSS_OF_OBJECTIVE[self.objective]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, each once, those of TRAIN first."""
        return tuple(dict.fromkeys((*self.files_train, *self.files_test)))
