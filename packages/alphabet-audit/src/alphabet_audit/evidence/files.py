"""Files of a run: read within bounds, written whole."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from alphabet_audit.errors import AuditError


def write_whole(path: Path, content: bytes, sync: Callable[[int], None] = os.fsync) -> None:
    """Write a file so that at any moment it is either the old one or the new one, whole."""
    draft = path.with_name(path.name + ".draft")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise AuditError(f"{path} could not be written ({error.strerror}); make room and try again") from error
