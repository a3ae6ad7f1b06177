"""Results that took long to make, kept on disk between runs: compiled kernels, and what the tools said of them.

An entry is a file whose name is a digest of everything that decides its contents, so that a change of any of it asks
for another file. Entries are written under another name and renamed, so that a reader finds all of one or none. They
carry a digest of themselves: a damaged one counts as absent and is written again. A folder that cannot be read or
written only costs time. When the entries take more than `LIMIT_BYTES` bytes, those that were used least recently go.
"""

import hashlib
import json
import os
import tempfile
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

VARIABLE = "ALPHABET_PTX_CACHE"
LIMIT_BYTES = 256 << 20
_SUFFIX = ".entry"


def folder() -> Path | None:
    """The folder of the entries: that of the environment variable ALPHABET_PTX_CACHE, else the user's.

    None if the variable says "off", or if nobody knows where the user's home is: then nothing is kept.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen == "off" else Path(chosen)
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user) / "alphabet-ptx"
    try:
        return Path.home() / ".cache" / "alphabet-ptx"
    except RuntimeError:  # as in a container whose user has no entry and no HOME
        return None


def digest(*parts: str | bytes) -> str:
    """The name of an entry that is decided by these parts."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def digest_file(path: str | Path) -> str:
    """The digest of a file's bytes, which are read once as long as the file stays as it is."""
    found = Path(path).stat()
    return _digest_file(Path(path), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest_file(path: Path, _size: int, _modified: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(key: str) -> dict[str, Any] | None:
    """What was saved under this key; None if nothing was, or if the entry is damaged."""
    place = folder()
    if place is None:
        return None
    path = place / f"{key}{_SUFFIX}"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if data[:64] != digest(key, data[64:]).encode():
        return None
    with suppress(OSError):
        os.utime(path)  # used just now
    contents: dict[str, Any] = json.loads(zlib.decompress(data[64:]))
    return contents


def save(key: str, contents: dict[str, Any]) -> None:
    """Keep contents, which JSON must be able to hold, for a later `load`."""
    place = folder()
    if place is None:
        return
    data = zlib.compress(json.dumps(contents).encode())
    with suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=_SUFFIX, dir=place)
        written = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(digest(key, data).encode() + data)
            written.replace(place / f"{key}{_SUFFIX}")
        except OSError:
            written.unlink(missing_ok=True)
            raise
        _discard_oldest(place)


def _discard_oldest(place: Path) -> None:
    """Delete the entries that were used least recently, until the others fit."""
    entries = []
    for path in place.glob(f"*{_SUFFIX}"):
        with suppress(OSError):  # another process may delete it meanwhile
            found = path.stat()
            entries.append((found.st_mtime_ns, found.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= LIMIT_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size
