"""Atomics on memory: one after another, and those of programs that run at once, put off until all of them have ended.

An atomic whose result nobody reads may happen later: the programs' atomics then take place program by program, each
one's in their own order, as if they had run one after another.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from alphabet_ptx.conflicts import ConflictTracker
from alphabet_ptx.datatypes import DTYPES, Array
from alphabet_ptx.memory import Memory

# What an atomic stores, from the old value, the operand, and for cas the value to be stored.
Combine = Callable[[Array, Array, Array], Array]


def exchange(elements: Array, places: Array, values: Array, replacements: Array, combine: Combine) -> Array:
    """Combine values with the elements at these places, one after another; returns what each of them found."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    if fresh.all():
        old = elements[places]
        elements[places] = combine(old, values, replacements)
        return old
    # In each turn every place takes part at most once.
    first = np.flatnonzero(fresh)
    turns = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
    old = np.empty((len(places), *elements.shape[1:]), elements.dtype)
    for members in np.split(np.argsort(turns, kind="stable"), np.cumsum(np.bincount(turns))[:-1]):
        chosen = order[members]
        old[chosen] = elements[places[chosen]]
        elements[places[chosen]] = combine(old[chosen], values[chosen], replacements[chosen])
    return old


def elements_of(memory: Memory, kind: str) -> Array:
    """A memory as elements of that type; of packed pairs (elements, 2)."""
    return memory.bytes.view(DTYPES[kind].base).reshape(-1, *DTYPES[kind].shape)


@dataclass(frozen=True)
class Operation:
    """What deferred atomics do: they may share a place with equal ones only."""

    name: str
    kind: str


@dataclass
class _Pending:
    number: int
    combine: Combine
    threads: list[Array]
    places: list[Array]
    values: list[Array]


class Deferred:
    """The deferred atomics of programs that run at once, in the order of their steps."""

    def __init__(self, memory: Memory, size: int) -> None:
        self.memory = memory
        self.size = size
        self.pending: dict[Operation, _Pending] = {}

    def add(
        self, operation: Operation, combine: Combine, threads: Array, where: Array, width: int, values: list[Array]
    ) -> None:
        """Defer the atomics of these threads, on neighbouring elements from byte `where` on."""
        memory, tracker = self.memory, self.memory.tracker
        assert isinstance(tracker, ConflictTracker)
        pending = self.pending.setdefault(operation, _Pending(len(self.pending), combine, [], [], []))
        tracker.defer(memory.cells_of(where, width * len(values), threads)[0], pending.number)
        for i, value in enumerate(values):
            pending.threads.append(threads)
            pending.places.append(where // width + i)
            pending.values.append(value)

    def carry_out(self) -> None:
        """Let them happen."""
        for operation, pending in self.pending.items():
            if not pending.threads:
                continue
            threads, places, values = (
                np.concatenate(part) for part in (pending.threads, pending.places, pending.values)
            )
            order = np.argsort(threads // self.size, kind="stable")
            elements = elements_of(self.memory, operation.kind)
            exchange(elements, places[order], values[order], values[order], pending.combine)
            pending.threads, pending.places, pending.values = [], [], []

    def drop(self) -> None:
        """Forget them."""
        self.pending.clear()
