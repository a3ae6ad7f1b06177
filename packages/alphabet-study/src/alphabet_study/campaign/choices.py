"""What a user names on the command line: tasks, families and settings."""

from collections.abc import Sequence
from pathlib import Path

from alphabet_baselines import FAMILIES

from alphabet_study.data_root import UNKNOWN, VERIFIED, embedded_folder, presence
from alphabet_study.errors import StudyError
from alphabet_study.protocol.settings import SETTINGS, Settings
from alphabet_study.registry import ALL, TASKS, Task, find_tasks

ALPHABET = "alphabet"
# Names that stand for the tasks that can run at all, and for those that need no download.
AVAILABLE, EMBEDDED = "available", "embedded"
# The paper counts two tasks of fault diagnosis to the UEA archive's suite; its short name is what people type.
SHORT_NAMES = {"uea": "UEA-fault"}


def choose_tasks(names: Sequence[str], root: Path | None, *, available: bool = False) -> list[Task]:
    """The tasks of these names and suites, each once, all of which can be run.

    available: leave out those whose files are absent, in place of an error that lists them.
    """
    wanted: dict[str, Task] = {}
    for name in names:
        if name == AVAILABLE:
            found = [task for task in TASKS.values() if is_available(task, root)]
        elif name == EMBEDDED:
            found = [task for task in TASKS.values() if embedded_folder(task) is not None]
        else:
            found = list(find_named([name]))
        wanted |= {task.name: task for task in found}
    absent = [task for task in wanted.values() if not is_available(task, root)]
    if absent and not available:
        first = absent[0]
        why = f"it has no reader: {first.no_reader}" if first.no_reader else str(presence(first, root))
        raise StudyError(
            f"{len(absent)} of {len(wanted)} tasks cannot be run: {', '.join(task.name for task in absent[:10])}"
            f"{', ...' if len(absent) > 10 else ''}. {first.name}: {why}. --available leaves such tasks out"
        )
    missing = {task.name for task in absent}
    return [task for name, task in wanted.items() if name not in missing]


def find_named(names: Sequence[str]) -> tuple[Task, ...]:
    """The tasks of these names and suites, whether or not they can be run; without names all."""
    return find_tasks([SHORT_NAMES.get(name.casefold(), name) for name in names or [ALL]])


def is_available(task: Task, root: Path | None) -> bool:
    """Whether a task has a reader and all its files, none of which has another hash than the declared one."""
    return task.reader is not None and presence(task, root).status in (VERIFIED, UNKNOWN)


def choose_families(names: Sequence[str]) -> tuple[str, ...]:
    """The families of these names, each once; "all" is every one of the paper's ten."""
    from alphabet_study.protocol.settings import FAMILY_NAMES

    chosen: list[str] = []
    for name in names:
        if name not in (*FAMILY_NAMES, ALL):
            raise StudyError(f"--family must be all or one of {', '.join(FAMILY_NAMES)}; got {name!r}")
        chosen += [ALPHABET, *FAMILIES] if name == ALL else [name]
    return tuple(dict.fromkeys(chosen))


def choose_settings(name: str) -> Settings:
    """The settings of this name."""
    if name not in SETTINGS:
        raise StudyError(f"--settings must be one of {', '.join(SETTINGS)}; got {name!r}")
    return SETTINGS[name]
