"""The store: a campaign's records, its manifest and the openings of TEST in one SQLite file.

Every fit is one transaction. The journal is a write-ahead log, so that `status` and `export` read while a campaign
writes; synchronous is FULL, because an opening of TEST must not be forgotten even by a power cut, and one sync of a few
milliseconds is little beside a fit.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from alphabet_study.campaign.clock import utc_now
from alphabet_study.campaign.lock import WriterLock
from alphabet_study.campaign.rows import COLUMNS, KEY, Row, differences, record_of, row_of
from alphabet_study.campaign.store_errors import check_not_write_protected, explained
from alphabet_study.campaign.store_file import (
    check_kind,
    connect_to_read,
    connect_to_write,
    prepare,
    read_manifest,
    refuse_folder,
    settings_of,
)
from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import FAILED, FINAL, Cell, FitKey, Job, Outcome, Record
from alphabet_study.protocol.selection import Frozen
from alphabet_study.protocol.settings import Settings

_KEY_IS = " AND ".join(f"{name} = ?" for name in KEY)
_INSERT = f"INSERT INTO fits ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class Opening(NamedTuple):
    """That TEST was opened for a cell: under which frozen configuration, and when."""

    frozen: str
    candidate: str
    epochs: int | None
    opened: str


class Store:
    """An open store; `create_or_resume` opens one for writing and `read` for reading only. Close it, or use `with`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._depth = 0

    @classmethod
    def create_or_resume(cls, path: Path, settings: Settings, environment: Mapping[str, Any]) -> "Store":
        """The store at this path for writing, created if there is none; one of other settings is refused.

        environment: JSON values that a new store's manifest remembers, such as package versions and source digest.
        """
        refuse_folder(path)
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            check_not_write_protected(path)
            lock = WriterLock(path)
            try:
                store = cls(path, connect_to_write(path), lock)
            except BaseException:
                lock.release()
                raise
        try:
            with explained(path):
                prepare(path, store._connection, settings, environment)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def read(cls, path: Path) -> "Store":
        """The store at this path for reading; a campaign may be writing to it."""
        refuse_folder(path)
        if not path.is_file():
            raise StudyError(f"{path}: there is no store; `alphabet-study run --store {path}` creates it")
        with explained(path):
            store = cls(path, connect_to_read(path), None)
            check_kind(path, store._connection)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others write to it."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are kept together, or none of them if anything is raised."""
        with explained(self.path):
            if self._depth == 0:
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._connection.execute("COMMIT")
            except BaseException:
                if self._depth == 1 and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def add(self, record: Record) -> bool:
        """Keep a record, in a transaction of its own unless one is open; True if it was new.

        The same record again is a no-op, a failed one gives way to a finished one, and one that says something else is
        refused. A final needs the opening of its cell.
        """
        key, row = record.job.key, row_of(record)
        with self.transaction():
            if key.stage == FINAL:
                opening = self._opening(key.cell)
                if opening is None or opening.frozen != record.job.frozen:
                    found = "was not opened" if opening is None else f"was opened under {opening.frozen}"
                    raise StudyError(f"{key}: trained under {record.job.frozen}, but TEST of {key.cell} {found}")
            known = self._row(key)
            if known is not None:
                if record.outcome.status == FAILED:
                    return False
                if known["status"] != FAILED:
                    differing = differences(known, row)
                    if differing:
                        raise StudyError(f"{key}: conflicting records in {self.path}: {'; '.join(differing)}")
                    return False
                self._connection.execute(f"DELETE FROM fits WHERE {_KEY_IS}", _values(key))
            self._connection.execute(_INSERT, [row[name] for name in COLUMNS])
        return True

    def open_test(self, frozen: Frozen, opened: str | None = None) -> None:
        """Note that TEST of a cell is opened under this frozen configuration, before anything reads it.

        The same opening again is a no-op, a different one is refused. opened: now, unless given.
        """
        self.note_opening(frozen.cell, Opening(frozen.digest(), frozen.candidate, frozen.epochs, opened or utc_now()))

    def note_opening(self, cell: Cell, opening: Opening) -> None:
        """Note an opening; refuse one that differs from what is known."""
        with self.transaction():
            known = self._opening(cell)
            if known is not None and known[:3] != opening[:3]:
                raise StudyError(
                    f"{cell}: TEST was opened on {known.opened} under {known.candidate} with {known.epochs} epochs "
                    f"(hash {known.frozen}); a second opening under {opening.candidate} with {opening.epochs} epochs "
                    f"(hash {opening.frozen}) is refused. A new selection needs a new store"
                )
            if known is None:
                self._connection.execute(
                    "INSERT INTO openings VALUES (?, ?, ?, ?, ?, ?)", (cell.task, cell.family, *opening)
                )

    def check_data(self, task: str, digests: Mapping[str, str]) -> None:
        """Remember the digests of a task's files, "train" and "test"; refuse data that differ from what was used."""
        with self.transaction():
            known = self.data_digests().get(task, {})
            for part, digest in digests.items():
                if known.get(part, digest) != digest:
                    raise StudyError(
                        f"{task}: the files of {part.upper()} have changed since this campaign began: digest {digest}, "
                        f"but {self.path} was filled with {known[part]}. Restore the files, or use a new store"
                    )
                if part not in known:
                    self._connection.execute("INSERT INTO data VALUES (?, ?, ?)", (task, part, digest))

    def note_planned(self, cells: Collection[Cell]) -> None:
        """Remember that these cells are to be run, so that one that never begins is missed."""
        with self.transaction():
            for cell in cells:
                self._connection.execute("INSERT OR IGNORE INTO planned VALUES (?, ?)", (cell.task, cell.family))

    def delete_failed(self, cells: Collection[Cell]) -> int:
        """Forget the failed fits of these cells, so that they run again; the number of them."""
        failed = [r.job.key for r in self.records() if r.outcome.status == FAILED and r.job.key.cell in cells]
        with self.transaction():
            for key in failed:
                self._connection.execute(f"DELETE FROM fits WHERE {_KEY_IS}", _values(key))
        return len(failed)

    def records(self) -> list[Record]:
        """All records, in the order of their keys."""
        with explained(self.path):
            return [record_of(row) for row in self._connection.execute(f"SELECT * FROM fits ORDER BY {', '.join(KEY)}")]

    def outcomes(self, cells: Collection[Cell]) -> dict[FitKey, tuple[Job, Outcome]]:
        """The jobs and outcomes of these cells by key, as selection reads them."""
        return {r.job.key: (r.job, r.outcome) for r in self.records() if r.job.key.cell in cells}

    def seconds_by_cell(self) -> dict[Cell, list[float]]:
        """How long the finished fits of every cell took."""
        found: dict[Cell, list[float]] = {}
        with explained(self.path):
            rows = self._connection.execute("SELECT task, family, seconds FROM fits WHERE status != ?", (FAILED,))
            for task, family, seconds in rows:
                found.setdefault(Cell(task, family), []).append(seconds)
        return found

    def openings(self) -> dict[Cell, Opening]:
        """The openings of TEST by cell."""
        with explained(self.path):
            rows = self._connection.execute("SELECT * FROM openings ORDER BY task, family").fetchall()
        return {Cell(row["task"], row["family"]): Opening(*tuple(row)[2:]) for row in rows}

    def planned(self) -> set[Cell]:
        """The cells that were to be run; none are known where an earlier version wrote the store."""
        with explained(self.path):
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'planned'").fetchall():
                return set()
            return {Cell(*row) for row in self._connection.execute("SELECT task, family FROM planned")}

    def data_digests(self) -> dict[str, dict[str, str]]:
        """The digests of the tasks' files by task and part, "train" or "test"."""
        found: dict[str, dict[str, str]] = {}
        with explained(self.path):
            for task, part, digest in self._connection.execute("SELECT task, part, digest FROM data ORDER BY task"):
                found.setdefault(task, {})[part] = digest
        return found

    def manifest(self) -> dict[str, Any]:
        """What was settled when the store was created."""
        with explained(self.path):
            return read_manifest(self._connection)

    @property
    def settings(self) -> Settings:
        """The settings of all fits in this store."""
        return settings_of(self.manifest()["settings"])

    def _row(self, key: FitKey) -> Row | None:
        found = self._connection.execute(f"SELECT * FROM fits WHERE {_KEY_IS}", _values(key)).fetchone()
        return None if found is None else dict(found)

    def _opening(self, cell: Cell) -> Opening | None:
        found = self._connection.execute(
            "SELECT frozen, candidate, epochs, opened FROM openings WHERE task = ? AND family = ?",
            (cell.task, cell.family),
        ).fetchone()
        return None if found is None else Opening(*found)


def _values(key: FitKey) -> tuple[Any, ...]:
    return tuple(getattr(key, name) for name in KEY)
