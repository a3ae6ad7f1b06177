"""Finished fits as rows of a CSV file: appended and synced one by one, so that a kill costs at most the running fit."""

import csv
import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

import pandas as pd

from alphabet_study.diagnostics.progress import Progress
from alphabet_study.errors import StudyError
from alphabet_study.protocol.fitting import one_thread
from alphabet_study.protocol.versions import source_digest


@dataclass(frozen=True)
class FitName:
    """All that decides a fit beside the data, in texts and numbers: a row under this name is never computed twice."""

    def __str__(self) -> str:
        # The first four fields tell the fits of a run apart; what follows is the same for all, or follows from them.
        return "/".join(str(value) for value in list(asdict(self).values())[:4])


Name = TypeVar("Name", bound=FitName)
Row = dict[str, Any]
Kinds = Mapping[str, type[str] | type[int] | type[float]]
# Beside what a fit gives: how long it took, and the digest of the code that trained it.
CIRCUMSTANCES: Kinds = {"seconds": float, "sources": str}


def complete_rows(
    path: Path, names: Sequence[Name], run: Callable[[Name], Row], results: Kinds, progress: Progress
) -> pd.DataFrame:
    """The rows of these fits, each once and in their order; those that the file at `path` lacks are computed.

    results: the columns that `run` gives, with their types. Fits run one after the other, on one thread.
    """
    names = list(dict.fromkeys(names))
    if not names:
        raise StudyError("there is nothing to run: no task is left, or no seed; name some")
    with RowFile(path, type(names[0]), {**results, **CIRCUMSTANCES}) as file:
        missing = [name for name in names if name not in file.rows]
        progress.begin(len(names), len(names) - len(missing))
        stale = sum(file.rows[name]["sources"] != source_digest() for name in names if name in file.rows)
        if stale:
            progress.say(
                f"{stale} rows of {path} were computed by another version of the code; move the file away to compute "
                "them anew"
            )
        for name in missing:
            progress.start(str(name))
            started = time.perf_counter()
            with one_thread():
                found = run(name)
            file.append(name, {**found, "seconds": time.perf_counter() - started, "sources": source_digest()})
            progress.finish(str(name))
        return pd.DataFrame([{**asdict(name), **file.rows[name]} for name in names])


class RowFile(Generic[Name]):
    """A CSV file of rows, open for appending by one process. Use it by `with`.

    A last line without its end, which a kill may leave, is dropped; anything else that does not fit is refused.
    """

    def __init__(self, path: Path, kind: type[Name], results: Kinds) -> None:
        self.path = path
        self.rows: dict[Name, Row] = {}
        self._kind = kind
        self._results = results
        self._header = [*(field.name for field in fields(kind)), *results]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("a+b")
        except OSError as error:
            raise StudyError(f"{path} cannot be opened ({error.strerror}); name another file by --out") from error
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, name: Name, row: Row) -> None:
        """Add a row and wait until it is on the disk."""
        if list(row) != list(self._results):
            raise AssertionError(f"{name}: a row must have the columns {list(self._results)}; got {list(row)}")
        self._write([*asdict(name).values(), *row.values()])
        self.rows[name] = row

    def _lock(self) -> None:
        try:
            import fcntl  # which Windows lacks
        except ImportError:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(
                f"{self.path}: another process is adding rows to this file; wait until it ends or name another by --out"
            ) from None

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        if not whole:
            self._write(self._header)
            return
        try:
            lines = list(csv.reader(io.StringIO(whole.decode()), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise StudyError(f"{self.path} is no CSV file ({error}); name another by --out") from error
        if lines[0] != self._header:
            raise StudyError(
                f"{self.path}, line 1: the columns must be {','.join(self._header)}; got {','.join(lines[0])[:200]}. "
                "This file holds something else: name another by --out"
            )
        for number, line in enumerate(lines[1:], start=2):
            name, row = self._parse(number, line)
            if name in self.rows:
                raise StudyError(f"{self.path}, line {number}: this fit has a row already ({name}); delete one of them")
            self.rows[name] = row

    def _parse(self, number: int, line: list[str]) -> tuple[Name, Row]:
        kinds: dict[str, Any] = {**{field.name: field.type for field in fields(self._kind)}, **self._results}
        if len(line) != len(kinds):
            raise StudyError(
                f"{self.path}, line {number}: {len(line)} columns found, {len(kinds)} expected; delete the line, and "
                "its fit runs again"
            )
        values: Row = {}
        for (column, kind), text in zip(kinds.items(), line, strict=True):
            try:
                values[column] = kind(text)
            except ValueError:
                raise StudyError(
                    f"{self.path}, line {number}, column {column}: {text!r} is no {kind.__name__}; delete the line, "
                    "and its fit runs again"
                ) from None
        return self._kind(**{name: values.pop(name) for name in self._header[: len(fields(self._kind))]}), values

    def _write(self, values: Sequence[Any]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            [repr(value) if isinstance(value, float) else str(value) for value in values]
        )
        try:
            self._file.write(line.getvalue().encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StudyError(f"{self.path} cannot be written ({error.strerror}): check the space left") from error
