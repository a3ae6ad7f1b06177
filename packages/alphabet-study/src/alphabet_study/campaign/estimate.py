"""How long the fits that are left will take, from those that were timed."""

import statistics
from collections.abc import Mapping

from alphabet_study.protocol.records import Cell
from alphabet_study.registry.task import Task

# Fits of tiny tasks still cost something: below this many instants, all count alike. So do undeclared sizes.
SMALLEST = 10_000


class Estimate:
    """Medians of measured seconds: of the cell where some of its fits ran, else by size within the family.

    Medians, because the first fits of a worker may have to compile kernels.
    """

    def __init__(self, tasks: Mapping[str, Task], seconds: Mapping[Cell, list[float]]) -> None:
        self._tasks = tasks
        self._seconds = {cell: list(values) for cell, values in seconds.items() if cell.task in tasks}

    def add(self, cell: Cell, seconds: float) -> None:
        """Note how long a fit took."""
        self._seconds.setdefault(cell, []).append(seconds)

    def seconds_left(self, left: Mapping[Cell, int]) -> float:
        """The seconds that these numbers of fits will take one after the other."""
        typical = {cell: statistics.median(values) for cell, values in self._seconds.items()}
        rates: dict[str, list[float]] = {}
        for cell, seconds in typical.items():
            rates.setdefault(cell.family, []).append(seconds / declared_size(self._tasks[cell.task]))
        # A family without any fit yet is taken for the median of all.
        overall = statistics.median(rate for found in rates.values() for rate in found) if rates else 0.0
        rate_of = {family: statistics.median(found) for family, found in rates.items()}
        total = 0.0
        for cell, count in left.items():
            scaled = rate_of.get(cell.family, overall) * declared_size(self._tasks[cell.task])
            total += count * typical.get(cell, scaled)
        return total


def declared_size(task: Task) -> int:
    """The number of instants in TRAIN by the task's declaration, a measure of how long its fits take."""
    return max((task.train_size or 0) * (task.length or 0), SMALLEST)
