"""Where a task's files lie, whether they are the right ones, and the digests by which a campaign knows them again.

The data root is a folder laid out by the declared paths, such as UCR/GunPoint/GunPoint_TRAIN.ts. The sets that aeon
bundles stand in for it where it is not given or does not have them.
"""

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from alphabet_study.errors import StudyError
from alphabet_study.registry.task import DataFile, Task

VARIABLE = "ALPHABET_DATA"
VERIFIED, UNKNOWN, DIFFERS, ABSENT = "verified", "present, unknown hash", "hash differs", "absent"
_TRAIN, _TEST = "train", "test"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Presence:
    """Whether a task's files are there and right: the status, and in one line where they are or how to get them."""

    status: str
    detail: str

    def __str__(self) -> str:
        return f"{self.status}: {self.detail}"


def find_root(option: Path | None, *, create: bool = False) -> Path | None:
    """The data root: the option `--data`, else the variable ALPHABET_DATA, else None: the embedded sets alone."""
    named = str(option) if option is not None else os.environ.get(VARIABLE, "")
    if not named:
        return None
    root = Path(named).expanduser()
    said = f"--data {root}" if option is not None else f"{VARIABLE}={root}"
    try:
        if create:
            root.mkdir(parents=True, exist_ok=True)
        if root.is_dir():
            return root
    except OSError as error:
        raise StudyError(f"{said}: the folder cannot be made ({error.strerror}); name another") from error
    raise StudyError(f"{said}: there is no such folder; name the one that holds UCR, UEA and General, or create it")


def task_folder(task: Task, root: Path | None) -> Path:
    """The folder in which a task's files lie: below the root if any of them is there, else aeon's bundled one.

    A root that has only some of the files is not completed from the bundle: the two may differ.
    """
    if not task.files:
        raise StudyError(f"task {task.name} declares no files: {task.no_reader}")
    if root is not None:
        folder = root / PurePosixPath(task.files[0].path).parent
        if any(_existing(folder, file) for file in task.files):
            return folder
    bundled = embedded_folder(task)
    if bundled is not None:
        return bundled
    searched = f"in {root}" if root is not None else f"without a data root (--data or {VARIABLE})"
    raise StudyError(f"task {task.name}: its files are absent {searched}; {how_to_get(task)}")


def embedded_folder(task: Task) -> Path | None:
    """The folder in which aeon bundles the task, if it does; aeon is found without being imported."""
    aeon = find_spec("aeon") if task.embedded is not None else None
    for location in (aeon.submodule_search_locations or ()) if aeon is not None else ():
        folder = Path(location) / "datasets" / "data" / str(task.embedded)
        if all(_existing(folder, file) for file in task.files):
            return folder
    return None


def locate_files(task: Task, root: Path | None, split: str) -> list[Path]:
    """The files of one split, "train" or "test", in the declared order; those of the other need not exist."""
    folder = task_folder(task, root)
    files = _files_of(task, split)
    paths = [_existing(folder, file) for file in files]
    missing = [file.name for file, path in zip(files, paths, strict=True) if path is None]
    if missing:
        raise StudyError(f"task {task.name}: {folder} lacks {_listed(missing)}; {how_to_get(task)}")
    return [path for path in paths if path is not None]


def presence(task: Task, root: Path | None) -> Presence:
    """Whether all files of a task are there, and whether their hashes are the declared ones."""
    try:
        folder = task_folder(task, root)
    except StudyError:
        return Presence(ABSENT, how_to_get(task))
    paths = [(file, _existing(folder, file)) for file in task.files]
    missing = [file.name for file, path in paths if path is None]
    if missing:
        return Presence(ABSENT, f"{folder} lacks {_listed(missing)}; {how_to_get(task)}")
    # A .tsv file in the place of the .ts one has no declared digest.
    verdicts = [
        (path.name, is_declared(file, path) if path.name == file.name else None)
        for file, path in paths
        if path is not None
    ]
    wrong = [name for name, verdict in verdicts if verdict is False]
    if wrong:
        return Presence(DIFFERS, f"{_listed(wrong)} in {folder}; move it away and {how_to_get(task)}")
    place = "bundled with aeon" if folder == embedded_folder(task) else str(folder)
    return Presence(UNKNOWN if any(verdict is None for _, verdict in verdicts) else VERIFIED, place)


def is_declared(file: DataFile, path: Path) -> bool | None:
    """Whether the file at `path` has the declared digest; None where none is declared."""
    try:
        if file.sha256 is not None:
            return _hashed([path], named=False) == file.sha256
        return None if file.contents is None else contents_digest(path) == file.contents
    except OSError as error:
        raise StudyError(f"{path}: cannot be read ({error.strerror}); make it readable") from error


def data_digest(task: Task, root: Path | None, split: str) -> str:
    """The SHA-256 over names, sizes and bytes of one split's files; TRAIN's never opens a file of TEST alone."""
    paths = locate_files(task, root, split)
    try:
        return _hashed(paths, named=True)
    except OSError as error:
        raise StudyError(
            f"task {task.name}: {error.filename} cannot be read ({error.strerror}); make it readable"
        ) from error


def contents_digest(path: Path) -> str | None:
    """The SHA-256 over what a tar archive holds, by file name; None if it cannot be read as one.

    Folders, dates, owners and compression do not count, so that archives packed anew from the same files agree.
    """
    held = []
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    held.append((PurePosixPath(member.name).name, hashlib.sha256(content.read()).hexdigest()))
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error):
        return None
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in sorted(held)).encode()).hexdigest()


def how_to_get(task: Task) -> str:
    """What to do to have a task's files, in one line."""
    if can_fetch(task):
        return f"`alphabet-study fetch {_quoted(task.name)}`"
    if not task.files:
        return f"see {task.source}"
    folder = PurePosixPath(task.files[0].path).parent
    return f"get {_listed([file.name for file in task.files])} from {task.source} into {folder} of the data root"


def can_fetch(task: Task) -> bool:
    """Whether every file of the task is declared with an address."""
    return bool(task.files) and all(file.address is not None for file in task.files)


def _existing(folder: Path, file: DataFile) -> Path | None:
    """The file in this folder, or for a .ts file the .tsv one of the UCR archive of 2018; None if neither exists."""
    path = folder / file.name
    candidates = [path, path.with_suffix(".tsv")] if path.suffix == ".ts" else [path]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _files_of(task: Task, split: str) -> tuple[DataFile, ...]:
    if split not in (_TRAIN, _TEST):
        raise StudyError(f"split must be {_TRAIN} or {_TEST}; got {split!r}")
    return task.files_train if split == _TRAIN else task.files_test


def _hashed(paths: Sequence[Path], *, named: bool) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if named:
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more files"


def _quoted(name: str) -> str:
    return f'"{name}"' if any(character in name for character in " ()") else name
