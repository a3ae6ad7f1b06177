"""Fetching the files that tasks declare with an address: resumed where a transfer broke off, verified, then named.

What is incomplete lies beside its place as NAME.part, with the server's tag for that version in NAME.part.tag; only a
complete file whose declared hash is right ever gets its name.
"""

import os
import re
import zipfile
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from alphabet_study.data_root import is_declared
from alphabet_study.errors import StudyError
from alphabet_study.registry.task import DataFile, Task

# Called with the name of a file, the bytes that have arrived, and how many there will be, if the server says.
Progress = Callable[[str, int, int | None], None]

TIMEOUT = 60.0
_BLOCK = 1 << 16
_RESUME = "run the same command again, it resumes"


def fetch(task: Task, root: Path, *, on_progress: Progress | None = None, timeout: float = TIMEOUT) -> list[Path]:
    """Fetch what the root lacks of a task and return the new files; a set that aeon bundles need not be fetched.

    `timeout` is how many seconds the server may be silent.
    """
    missing = [file for file in task.files if not _already_there(root, file)]
    unaddressed = [file for file in missing if file.address is None]
    if unaddressed and task.embedded is not None:
        return []
    if unaddressed or not task.files:
        names = ", ".join(file.path for file in unaddressed[:3]) or "its files"
        raise StudyError(
            f"task {task.name} cannot be fetched: no address is declared for {names}; get it from {task.source}"
        )
    report = on_progress or _silent
    fetched: list[Path] = []
    for file in missing:
        final = root / file.path
        if final.is_file():  # arrived with the same archive as the file before it
            continue
        _make_folder(final.parent)
        if file.member is None:
            part = final.with_name(f"{final.name}.part")
            _download(str(file.address), part, trusted=_has_digest(file), report=report, timeout=timeout)
            _settle(file, part, final)
            fetched.append(final)
        else:
            together = [other for other in missing if other.address == file.address]
            fetched += _fetch_members(together, root, report=report, timeout=timeout)
    return fetched


def _already_there(root: Path, file: DataFile) -> bool:
    path = root / file.path
    if not path.is_file():
        return False
    if is_declared(file, path) is False:
        raise StudyError(f"{path} is there, but its hash is not the declared one; move it away, then fetch again")
    return True


def _fetch_members(files: list[DataFile], root: Path, *, report: Progress, timeout: float) -> list[Path]:
    """Download one zip file and take the declared members out of it, each to its declared path whatever its name."""
    address = str(files[0].address)
    folder = (root / files[0].path).parent
    archive = folder / f"{unquote(PurePosixPath(urlsplit(address).path).name)}.part"
    _download(address, archive, trusted=all(map(_has_digest, files)), report=report, timeout=timeout)
    parts = {file: root / f"{file.path}.part" for file in files}
    try:
        with zipfile.ZipFile(archive) as held:
            for file, part in parts.items():
                _make_folder(part.parent)
                _extract(held, str(file.member), part, address)
                _settle(file, part, root / file.path)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise StudyError(
            f"{address}: what arrived is no readable zip file ({error}); nothing was kept, fetch again"
        ) from error
    finally:
        # Whether the archive served or was found wrong, the next attempt must not trust it.
        for part in (archive, *parts.values()):
            _discard(part)
    return [root / file.path for file in files]


def _extract(held: zipfile.ZipFile, member: str, part: Path, address: str) -> None:
    if member not in held.namelist():
        shown = ", ".join(held.namelist()[:5]) or "nothing"
        raise StudyError(f"{address}: the zip file has no member {member}, but {shown}; tell the study's authors")
    with held.open(member) as source:
        _write(part, "wb", iter(lambda: source.read(_BLOCK), b""))


def _settle(file: DataFile, part: Path, final: Path) -> None:
    """Give a complete file its name, if its hash is right; keep nothing of it otherwise."""
    if is_declared(file, part) is False:
        _discard(part)
        raise StudyError(
            f"{file.address}: what arrived for {final.name} does not have the declared hash; nothing was kept. Fetch "
            "it again; if it differs again, the published file has changed"
        )
    try:
        part.replace(final)
    except OSError as error:
        raise StudyError(
            f"{final}: cannot be written ({error.strerror}); {part.name} is complete, rename it"
        ) from error
    _discard(part)


def _download(address: str, part: Path, *, trusted: bool, report: Progress, timeout: float) -> None:
    """Bring `part` to the full length of what is at the address, going on from what it already has.

    trusted: a declared hash will tell whether old and new bytes belong together; without one only the server's tag can.
    """
    name = part.name.removesuffix(".part")
    tag_file = _tag_file(part)
    for _ in range(2):
        tag = tag_file.read_text(encoding="utf-8") if tag_file.is_file() else ""
        start = part.stat().st_size if part.is_file() and (trusted or tag) else 0
        wanted = {"Range": f"bytes={start}-", **({"If-Range": tag} if tag else {})} if start else {}
        with _connect(address, wanted, timeout) as response:
            first, whole = _content_range(response.headers)
            if response.status == 416 and whole == start:
                return
            if response.status == 416 or (response.status == 206 and first != start):
                _discard(part)  # what is there does not fit what the server has: once more, from the start
                continue
            if response.status == 206:
                _write(part, "ab", _blocks(response, address, name, start, whole, report))
            else:
                tag_file.unlink(missing_ok=True)
                _remember(tag_file, response.headers)
                _write(part, "wb", _blocks(response, address, name, 0, _length(response.headers), report))
            return
    raise StudyError(f"{address}: the server does not give the bytes that were asked for; fetch again later")


def _connect(address: str, headers: dict[str, str], timeout: float) -> Any:
    """The server's answer: the file, the part of it that was asked for, or 416, that there is no such part."""
    headers = {"User-Agent": "alphabet-study", "Accept-Encoding": "identity", **headers}
    try:
        return _opener().open(Request(address, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code == 416 and "Range" in headers:
            return error
        error.close()
        raise StudyError(f"{address}: the server answers {error.code} {error.reason}; see whether it moved") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise StudyError(f"{address}: cannot be reached ({reason}); check the connection, then {_RESUME}") from error


def _blocks(
    response: IO[bytes], address: str, name: str, done: int, total: int | None, report: Progress
) -> Iterator[bytes]:
    """The bytes of a response, block by block; a transfer that ends early is an error."""
    report(name, done, total)
    while True:
        try:
            block = response.read(_BLOCK)
        except (OSError, HTTPException) as error:
            raise StudyError(f"{address}: broke off after {done} bytes ({error}); {_RESUME}") from error
        if not block:
            break
        done += len(block)
        report(name, done, total)
        yield block
    if total is not None and done != total:
        raise StudyError(f"{address}: broke off after {done} of {total} bytes; {_RESUME}")


def _write(path: Path, mode: str, blocks: Iterator[bytes]) -> None:
    try:
        with path.open(mode) as stream:
            for block in blocks:
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise StudyError(f"{path}: cannot be written ({error.strerror}); make room, then {_RESUME}") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"{folder}: cannot be made ({error.strerror}); choose another data root") from error


def _discard(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
        _tag_file(part).unlink(missing_ok=True)
    except OSError as error:
        raise StudyError(f"{part}: cannot be removed ({error.strerror}); remove it by hand") from error


def _remember(tag_file: Path, headers: HTTPMessage) -> None:
    """Keep the server's tag for this version of the file, if it is a strong one: resuming must not mix two versions."""
    tag = headers.get("ETag") or ""
    if tag.startswith('"'):
        _write(tag_file, "wb", iter([tag.encode()]))


def _silent(name: str, done: int, total: int | None) -> None:
    """Report nothing."""


def _tag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def _has_digest(file: DataFile) -> bool:
    return file.sha256 is not None or file.contents is not None


def _length(headers: HTTPMessage) -> int | None:
    text = headers.get("Content-Length") or ""
    return int(text) if text.isdigit() else None


def _content_range(headers: HTTPMessage) -> tuple[int | None, int | None]:
    """The first byte and the whole length that a Content-Range header names, None for what it leaves open."""
    match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", headers.get("Content-Range") or "")
    if match is None:
        return None, None
    first, whole = match.groups()
    return None if first is None else int(first), None if whole == "*" else int(whole)


def _opener() -> OpenerDirector:
    """An opener for http and https alone: a redirection to ftp or a local file leads nowhere."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        UnknownHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPDefaultErrorHandler(),
        HTTPRedirectHandler(),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
