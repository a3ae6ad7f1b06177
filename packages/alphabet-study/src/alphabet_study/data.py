"""What readers give: raw examples of TRAIN, and those of TEST by a separate call that selection never makes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from alphabet_core import Examples

from alphabet_study.registry.task import Task


@dataclass(frozen=True)
class TrainData:
    """A task's TRAIN as its files have it, not yet standardized.

    classes are the labels in the order of their indices, sorted as text; empty unless the task classifies. validation
    is given where the task's split is predefined, and `examples` are then the optimization fold alone.
    """

    examples: Examples
    classes: tuple[str, ...] = ()
    validation: Examples | None = None


class Reader(NamedTuple):
    """The two halves of a format: TRAIN without touching TEST, and TEST given TRAIN's classes.

    Both take the task and the folder in which its files lie, as declared by their paths.
    """

    train: Callable[[Task, Path], TrainData]
    test: Callable[[Task, Path, TrainData], Examples]
