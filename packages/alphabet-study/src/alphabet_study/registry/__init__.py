"""The registry: the paper's 82 tasks as declarations, one TOML file per suite.

TASKS       all tasks by the paper's names      find_task     one of them, or an error that lists near names
SUITES      the suites, in the paper's words    find_tasks    several: names, suites or "all"
"""

import difflib
from collections.abc import Iterable

from alphabet_study.errors import StudyError
from alphabet_study.registry.loading import load_registry
from alphabet_study.registry.task import DIRECTIONS, DataFile, Task

__all__ = ["ALL", "DIRECTIONS", "SUITES", "TASKS", "DataFile", "Task", "find_task", "find_tasks"]

TASKS: dict[str, Task] = load_registry()
SUITES: tuple[str, ...] = tuple(dict.fromkeys(task.suite for task in TASKS.values()))
ALL = "all"


def find_task(name: str) -> Task:
    """The task of this name, written as the paper does."""
    if name in TASKS:
        return TASKS[name]
    raise StudyError(f"there is no task {name!r}; {_advice(name, tuple(TASKS))}")


def find_tasks(names: str | Iterable[str]) -> tuple[Task, ...]:
    """The tasks that these names mean, each once, in the registry's order: a task, a suite, or "all"."""
    wanted: set[str] = set()
    for name in [names] if isinstance(names, str) else names:
        suite = next((suite for suite in SUITES if suite.casefold() == name.casefold()), None)
        if name == ALL:
            wanted.update(TASKS)
        elif suite is not None:
            wanted.update(task.name for task in TASKS.values() if task.suite == suite)
        elif name in TASKS:
            wanted.add(name)
        else:
            raise StudyError(f"{name!r} is neither a task nor a suite; {_advice(name, (*TASKS, *SUITES, ALL))}")
    return tuple(task for name, task in TASKS.items() if name in wanted)


def _advice(name: str, known: tuple[str, ...]) -> str:
    folded = {other.casefold(): other for other in known}
    near = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=5)]
    near += [other for other in known if len(name) > 2 and name.casefold() in other.casefold() and other not in near]
    listed = f"did you mean {', '.join(near)}?" if near else f"the suites are {', '.join(SUITES)}."
    return f"{listed} `alphabet-study tasks` lists all"
