"""Where a file went wrong: how every reader finds its files, reads their bytes and words its errors."""

from pathlib import Path

from alphabet_study.errors import StudyError
from alphabet_study.registry.task import DataFile, Task

AGAIN = "fetch the file again, or correct this place by hand"


def malformed(
    path: Path, found: str, remedy: str = AGAIN, *, line: int | None = None, column: int | None = None
) -> StudyError:
    """The error about one place of a file: where (line and column count from 1), what was found, what to do."""
    place = str(path)
    place += "" if line is None else f", line {line}"
    place += "" if column is None else f", column {column}"
    return StudyError(f"{place}: {found}; {remedy}")


def excerpt(text: bytes | str) -> str:
    """At most 40 characters of what was found, quoted and printable."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    return ascii(shown if len(shown) <= 40 else shown[:40] + "...")


def declared_file(
    task: Task, files: tuple[DataFile, ...], folder: Path, *, suffix: str = "", instead: str = ""
) -> Path:
    """The path in `folder` of the one declared file whose name ends so.

    Where it does not exist but the same stem with the suffix `instead` does, that.
    """
    named = [file.name for file in files if file.name.endswith(suffix)]
    if len(named) != 1:
        raise StudyError(
            f"task {task.name}: its reader needs one file *{suffix} in this part; {len(named)} are declared"
        )
    path = folder / named[0]
    if instead and not path.is_file() and path.with_suffix(instead).is_file():
        return path.with_suffix(instead)
    return path


def read_bytes(path: Path) -> bytes:
    """All bytes of a file that must exist and not be empty."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(
            f"{path}: cannot be read ({error.strerror}); fetch it, or name the folder that holds it"
        ) from error
    if not content.strip():
        raise malformed(path, "the file is empty", "fetch it again")
    return content


def check_declared(task: Task, path: Path, quantity: str, found: int, declared: int | None) -> None:
    """Raise if a count differs from the task's declaration; None declares nothing."""
    if declared is not None and found != declared:
        raise malformed(
            path,
            f"{found} {quantity}, but task {task.name} declares {declared}",
            "fetch the file again, or correct the declaration",
        )


def positive_option(task: Task, name: str, default: int | None = None) -> int:
    """The task's option of this name, which must be a positive integer."""
    value = task.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise StudyError(f"task {task.name}: option {name} must be a positive integer; got {value!r}")
    return value


def split_validation(task: Task, usual: tuple[str, ...] = ()) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """TRAIN's files that optimize, and those that validate: the option `validation` names them, or `usual` does."""
    names = task.options.get("validation", usual)
    held_out = tuple(file for file in task.files_train if file.name in names)
    absent = set(task.options.get("validation", ())) - {file.name for file in held_out}
    if absent or len(held_out) == len(task.files_train):
        raise StudyError(
            f"task {task.name}: option validation must name some files of TRAIN, not all; got {list(names)!r}"
        )
    return tuple(file for file in task.files_train if file not in held_out), held_out
