"""What SQLite and the file system say when a store cannot be used, in words that tell what to do."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alphabet_study.errors import StudyError

KEPT = "every fit that was recorded is kept, and the same command goes on from there"


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of SQLite and the file system within become a StudyError that says what to do about the store."""
    try:
        yield
    except sqlite3.Error as error:
        raise StudyError(f"{path}: {_explain(error)}") from error
    except OSError as error:
        raise StudyError(f"{path}: the store cannot be opened ({error.strerror}): check the folder") from error


def check_not_write_protected(path: Path) -> None:
    """Refuse a store that is marked read-only, also where a superuser could write to it nevertheless."""
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise StudyError(f"{path}: {READ_ONLY}")


READ_ONLY = "the store is read-only: make the file and its folder writable, or name a copy by --store"


def _explain(error: sqlite3.Error) -> str:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # the primary code of an extended one
    if code == sqlite3.SQLITE_FULL:
        return f"the disk is full; {KEPT} once there is space"
    if code == sqlite3.SQLITE_IOERR:
        return f"the store could not be read or written ({error}): is the disk full or gone? {KEPT}"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return READ_ONLY
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        return f"another program holds the store ({error}): close it; {KEPT}. A store belongs on a local disk"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or type(error) is sqlite3.DatabaseError:
        found = " ".join(str(error).split())
        return (
            f"this file is damaged or no store ({found}); it was left as it is. Name another file, or save what can be "
            "saved by `sqlite3 FILE .recover`, or import an exported CSV into a new store"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return "the store cannot be opened or created: check that its folder exists and is writable"
    return f"the store could not be used ({error}); {KEPT}"
