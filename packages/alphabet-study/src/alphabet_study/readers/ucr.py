"""The UCR and UEA archives: `.ts` files, and the `.tsv` files of the UCR archive of 2018.

A `.ts` file has a header of `@` lines and then one line per series, channels parted by colons, the label last. Whatever
the header says is checked against the data. A `.tsv` file has one series per line, the label first; it pads shorter
series with NaN at the end, so trailing NaNs there are padding, while '?' and NaN are missing values everywhere else.
Classes are TRAIN's labels, sorted as text. Series with timestamps are refused: no task of the study has them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from alphabet_core import Examples
from numpy.typing import NDArray

from alphabet_study.data import Reader, TrainData
from alphabet_study.readers.labels import index_labels, sorted_classes
from alphabet_study.readers.numbers import parse_count, parse_numbers
from alphabet_study.readers.places import check_declared, declared_file, excerpt, malformed, read_bytes
from alphabet_study.readers.stacking import stack_series
from alphabet_study.registry.task import DataFile, Task

_FLAGS = ("timestamps", "missing", "univariate", "equallength")
_COUNTS = ("dimensions", "serieslength")
_KEYS = ("problemname", *_FLAGS, *_COUNTS, "classlabel", "data")


@dataclass(frozen=True)
class Archive:
    """One file as it is: series (T_i, C) with NaN where missing, labels, and the labels that its header announces."""

    series: list[NDArray[np.float32]]
    labels: list[str]
    announced: tuple[str, ...] | None


def train(task: Task, folder: Path) -> TrainData:
    """TRAIN's series and classes; the TEST file is not opened."""
    path, archive = _read(task, task.files_train, folder, task.train_size)
    classes = sorted_classes(archive.labels)
    absent = [label for label in archive.announced or () if label not in classes]
    if absent:
        raise malformed(
            path, f"@classLabel announces {', '.join(absent)}, of which TRAIN has no series", "fetch it again"
        )
    check_declared(task, path, "classes", len(classes), task.outputs)
    return TrainData(_examples(path, archive, classes), classes)


def test(task: Task, folder: Path, train: TrainData) -> Examples:
    """TEST's series, labelled by the indices of TRAIN's classes."""
    path, archive = _read(task, task.files_test, folder, task.test_size)
    channels = archive.series[0].shape[1]
    if channels != train.examples.values.shape[2]:
        raise malformed(
            path, f"{channels} channels, but TRAIN has {train.examples.values.shape[2]}", "fetch both again"
        )
    return _examples(path, archive, train.classes)


READER = Reader(train, test)


def read_archive(path: Path) -> Archive:
    """The series and labels of a `.ts` or `.tsv` file."""
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    lines = [line.removesuffix(b"\r") for line in content.rstrip().split(b"\n")]
    return _read_tsv(path, lines) if path.suffix == ".tsv" else _read_ts(path, lines)


def _read(task: Task, files: tuple[DataFile, ...], folder: Path, size: int | None) -> tuple[Path, Archive]:
    path = declared_file(task, files, folder, instead=".tsv")
    archive = read_archive(path)
    check_declared(task, path, "series", len(archive.series), size)
    check_declared(task, path, "channels", archive.series[0].shape[1], task.channels)
    return path, archive


def _examples(path: Path, archive: Archive, classes: tuple[str, ...]) -> Examples:
    return stack_series(path, archive.series, index_labels(path, archive.labels, classes))


def _read_tsv(path: Path, lines: list[bytes]) -> Archive:
    series: list[NDArray[np.float32]] = []
    labels = []
    width = lines[0].count(b"\t")
    for number, text in enumerate(lines, 1):
        label, tab, row = text.partition(b"\t")
        if not tab:
            raise malformed(path, "no tab, so no values after the label", line=number)
        labels.append(_label(path, label, number, 1))
        numbers = parse_numbers(path, row, b"\t", line=number, column=len(label) + 2)
        if len(numbers) != width:
            raise malformed(path, f"{len(numbers)} values where the first line has {width}", line=number)
        present = np.flatnonzero(~np.isnan(numbers))
        _require_values(path, numbers, number)
        series.append(numbers[: present[-1] + 1, None])
    return Archive(series, labels, None)


def _read_ts(path: Path, lines: list[bytes]) -> Archive:
    header = _read_header(path, lines)
    series: list[NDArray[np.float32]] = []
    labels = []
    for number in range(header.data_line + 1, len(lines) + 1):
        one, label = _read_case(path, lines[number - 1], number)
        header.check_case(path, one, label, series[0] if series else one, number)
        series.append(one)
        labels.append(label)
    if not series:
        raise malformed(path, "no series after @data", "fetch it again", line=header.data_line)
    return Archive(series, labels, header.labels)


def _read_case(path: Path, text: bytes, number: int) -> tuple[NDArray[np.float32], str]:
    """One line: its series (T, C) and its label."""
    if b"(" in text:
        raise malformed(
            path,
            "a '(time, value)' tuple: series with timestamps are not read",
            "use the release of this set without timestamps",
            line=number,
            column=text.index(b"(") + 1,
        )
    *parts, label = text.split(b":")
    if not parts:
        found = "an empty line among the series" if not text.strip() else "no ':', so no label after the values"
        raise malformed(path, found, line=number)
    channels, column = [], 1
    for part in parts:
        if not part.strip():
            raise malformed(path, "a channel without values", line=number, column=column)
        channels.append(parse_numbers(path, part, b",", line=number, column=column))
        if len(channels[-1]) != len(channels[0]):
            raise malformed(
                path,
                f"channel {len(channels)} has {len(channels[-1])} values, channel 1 has {len(channels[0])}",
                "give all channels of a series the same length",
                line=number,
                column=column,
            )
        column += len(part) + 1
    one = np.stack(channels, axis=1)
    _require_values(path, one, number)
    return one, _label(path, label, number, column)


def _require_values(path: Path, one: NDArray[np.float32], number: int) -> None:
    if np.isnan(one).all():
        raise malformed(path, "every value of this series is missing", "leave the series out", line=number)


def _label(path: Path, text: bytes, number: int, column: int) -> str:
    try:
        label = text.decode().strip(" \t")
    except UnicodeDecodeError:
        label = ""
    if not label or not label.isprintable() or any(mark in label for mark in ",() "):
        raise malformed(path, f"{excerpt(text)} is not a label", line=number, column=column)
    return label


@dataclass(frozen=True)
class _Header:
    """What the `@` lines say, where they say it; None where they do not."""

    data_line: int
    labels: tuple[str, ...]
    flags: dict[str, bool]
    counts: dict[str, int]

    def check_case(
        self, path: Path, one: NDArray[np.float32], label: str, first: NDArray[np.float32], number: int
    ) -> None:
        """Raise if this series contradicts the header or has other channels than the first one."""
        for contradiction in self._contradictions(one, label, first):
            raise malformed(path, contradiction, "fetch the file again, or correct the header", line=number)

    def _contradictions(self, one: NDArray[np.float32], label: str, first: NDArray[np.float32]) -> Iterator[str]:
        length, channels = one.shape
        univariate, equal, missing = (self.flags.get(key) for key in ("univariate", "equallength", "missing"))
        if channels != first.shape[1]:
            yield f"{channels} channels where the first series has {first.shape[1]}"
        if channels != self.counts.get("dimensions", channels):
            yield f"{channels} channels where @dimensions says {self.counts['dimensions']}"
        if univariate is not None and univariate != (channels == 1):
            yield f"{channels} channel(s) where @univariate says {str(univariate).lower()}"
        stated = self.counts.get("serieslength", length)
        if length > stated or (length < stated and equal is not False):
            yield f"{length} values per channel where @seriesLength says {stated}"
        if equal and length != len(first):
            yield f"{length} values per channel where the first series has {len(first)} and @equalLength says true"
        if missing is False and np.isnan(one).any():
            yield "a missing value where @missing says false"
        if label not in self.labels:
            yield f"label {excerpt(label)} where @classLabel announces {', '.join(self.labels)}"


def _read_header(path: Path, lines: list[bytes]) -> _Header:
    flags: dict[str, bool] = {}
    counts: dict[str, int] = {}
    labels: tuple[str, ...] | None = None
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        name, *rest = text.split(None, 1)
        value = rest[0] if rest else b""
        key = name.removeprefix(b"@").decode("latin-1").lower()
        key = "dimensions" if key == "dimension" else key
        if not name.startswith(b"@") or key not in _KEYS:
            raise malformed(
                path, f"{excerpt(name)} is no header of a .ts file", f"known are {', '.join(_KEYS)}", line=number
            )
        if key in seen:
            raise malformed(path, f"a second @{key}", "keep one of the two", line=number)
        seen.add(key)
        column = line.index(name) + len(name) + 2
        if key in _FLAGS:
            flags[key] = _flag(path, value, number, column)
            if key == "timestamps" and flags[key]:
                remedy = "use the release of this set without timestamps"
                raise malformed(path, "@timeStamps true: series with timestamps are not read", remedy, line=number)
        elif key in _COUNTS:
            counts[key] = parse_count(path, value, f"@{key}", line=number, column=column)
        elif key == "classlabel":
            labels = _announced(path, value, number, column)
        elif key == "data":
            if labels is None:
                raise malformed(path, "no @classLabel before @data", "use a set for classification", line=number)
            return _Header(number, labels, flags, counts)
    raise malformed(path, "no @data line, so no series", "fetch it again", line=len(lines))


def _flag(path: Path, value: bytes, line: int, column: int) -> bool:
    if value.lower() not in (b"true", b"false"):
        raise malformed(path, f"{excerpt(value)} is neither true nor false", line=line, column=column)
    return value.lower() == b"true"


def _announced(path: Path, value: bytes, line: int, column: int) -> tuple[str, ...]:
    says, _, rest = value.partition(b" ")
    names = rest.split()
    if not _flag(path, says, line, column) or not names:
        raise malformed(path, "@classLabel names no classes", "use a set for classification", line=line, column=column)
    labels = tuple(_label(path, name, line, column) for name in names)
    if len(set(labels)) != len(labels):
        raise malformed(path, "@classLabel names a class twice", line=line, column=column)
    return labels
