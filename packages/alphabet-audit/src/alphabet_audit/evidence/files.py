"""Files of a run: read within bounds and only if they are files, written whole and never through a link."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from alphabet_audit.errors import AuditError

BINARY: int = getattr(os, "O_BINARY", 0)  # on Windows, or line ends would be changed
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)  # or opening a FIFO would wait for a writer


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes; an error for anything else, such as a FIFO."""
    try:
        file = os.open(path, os.O_RDONLY | NONBLOCK | BINARY)
    except (OSError, ValueError) as error:
        raise AuditError(f"{path} cannot be read ({getattr(error, 'strerror', error)})") from error
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise AuditError(f"{path} is not a regular file")
        content = opened.read(most + 1)
    if len(content) > most:
        raise AuditError(f"{path} is larger than {most:,} bytes, which no run writes")
    return content


def write_whole(path: Path, content: bytes, sync: Callable[[int], None] = os.fsync) -> None:
    """Write a file so that at any moment it is either the old one or the new one, whole.

    A draft is created exclusively, so that a link laid out under its name is never written through.
    """
    draft = path.with_name(path.name + ".draft")
    try:
        draft.unlink(missing_ok=True)  # of a run that was killed, or a link
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | BINARY, 0o644)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            sync(opened.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise AuditError(f"{path} could not be written ({error.strerror}); make room and try again") from error
