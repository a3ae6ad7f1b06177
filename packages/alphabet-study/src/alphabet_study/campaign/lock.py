"""The lock that lets one process at a time write to a store; the system releases it, however that process ends."""

import os
from pathlib import Path
from typing import IO

from alphabet_study.errors import StudyError


class WriterLock:
    """A lock beside a store, held from construction until `release` or the end of the process.

    It is a file of its own: locking the database file itself would interfere with SQLite's locks on it.
    """

    def __init__(self, store: Path) -> None:
        try:
            import fcntl  # which Windows lacks; reading a store does not need it
        except ImportError:
            raise StudyError(
                "this system cannot lock a store (Python has no fcntl here): run campaigns on Linux or macOS"
            ) from None
        path = store.with_name(store.name + ".lock")
        self._file: IO[str] = path.open("a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise StudyError(
                f"{store}: another campaign (process {holder}) is writing to this store: wait until it ends or give "
                "--store another file; `alphabet-study import` adds two stores up later"
            ) from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let others write."""
        self._file.close()
