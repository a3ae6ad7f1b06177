"""Members of published archives, read in memory and within bounds: nothing is unpacked onto the disk."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from alphabet_study.errors import StudyError
from alphabet_study.readers.places import excerpt, malformed, read_bytes

# No archive of the study unpacks to more; a few bytes of gzip could otherwise become all memory there is.
MOST_BYTES = 2**31
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)


def read_tar(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The wanted regular files of a `.tar.gz`: name without folders, and content; one name comes once."""
    content = read_bytes(path)
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            unpacked = stream.read(MOST_BYTES + 1)
    except _BROKEN as error:
        raise _broken(path, "gzip", error) from error
    if len(unpacked) > MOST_BYTES:
        raise malformed(path, f"it unpacks to over {MOST_BYTES >> 30} GiB", "fetch it again")
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            seen: set[str] = set()
            for member in archive:
                name = member.name.rpartition("/")[2]
                if not member.isfile() or not wanted(name):
                    continue
                if name in seen or not 0 <= member.size <= len(unpacked):
                    raise malformed(path, f"member {excerpt(member.name)} is there twice or has no possible size")
                seen.add(name)
                file = archive.extractfile(member)
                text = b"" if file is None else file.read()
                if len(text) != member.size:
                    raise malformed(path, f"member {excerpt(member.name)} is cut off")
                yield name, text
    except StudyError:
        raise
    except _BROKEN as error:
        raise _broken(path, "tar", error) from error


def read_zip(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a `.zip`: name without folders, and content; one name comes once."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            seen: set[str] = set()
            unpacked = 0
            for member in archive.infolist():
                name = member.filename.rpartition("/")[2]
                if member.is_dir() or not wanted(name):
                    continue
                unpacked += member.file_size
                if name in seen or unpacked > MOST_BYTES:
                    raise malformed(path, f"member {excerpt(member.filename)} is there twice or has no possible size")
                seen.add(name)
                yield name, archive.read(member)
    except StudyError:
        raise
    except _BROKEN as error:
        raise _broken(path, "zip", error) from error


def _broken(path: Path, kind: str, error: BaseException) -> Exception:
    return malformed(path, f"not a complete {kind} archive ({excerpt(str(error))})", "fetch it again")
