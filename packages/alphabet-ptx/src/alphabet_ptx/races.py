"""Races: two accesses to the same bytes, at least one of them a write, that no barrier puts in order.

Every cell of a memory (as many bytes as the kernel's narrowest access there) remembers its last writer and its readers
with a time stamp. The stamp counts synchronizations: an access is over for a warp if that warp has met a warp barrier
since, and for the whole block if the block has met a block barrier since. Programs of a grid run in any order, so
nothing orders them but release and acquire; see `clock`. A write that changes nothing does not race with accesses
before it: Triton stores the same value from several threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from alphabet_ptx.clock import ATOMIC, NEVER, Clock, instruction_of
from alphabet_ptx.datatypes import WARP, Array
from alphabet_ptx.errors import Source

# How many readers a cell has had since the last barrier: one thread, threads of one warp, of one block, of several.
_ONE, _WARP, _BLOCK, _GRID = range(4)
# Races of asynchronous units; `proxies` says what orders them.
UNFENCED = "asynchronous access after write"
UNFENCED_READ = "asynchronous write after read"
OVERWRITTEN = "write during asynchronous read"


@dataclass(frozen=True)
class Race:
    """Two unordered accesses: this `instruction` and the `other` before it; `count` cells of memory, all steps."""

    kind: str
    space: str
    line: int
    instruction: str
    source: Source | None
    other_line: int
    other: str
    threads: tuple[int, int]
    programs: tuple[int, int]
    place: str
    count: int = 1

    @property
    def missing(self) -> str:
        """What would have put the two accesses in order."""
        return {UNFENCED: "fence.proxy.async", UNFENCED_READ: "fence.proxy.async", OVERWRITTEN: "wait"}.get(
            self.kind, "barrier"
        )

    def __str__(self) -> str:
        here = f"line {self.line} `{self.instruction}`" + (f" ({self.source})" if self.source else "")
        return (
            f"{self.space} {self.kind}: {here} by thread {self.threads[0]} of program {self.programs[0]}, and line "
            f"{self.other_line} `{self.other}` by thread {self.threads[1]} of program {self.programs[1]} before it, "
            f"with no {self.missing} between them (at {self.place})"
        )


class Shadow(Protocol):
    """What follows the accesses to one memory, cell by cell."""

    def reset(self) -> None:
        """Forget everything, as a new block does with its shared memory."""

    def read(self, cells: Array, threads: Array, pc: int, *, atomic: bool = False) -> None:
        """Note that threads (by number within the block) read these cells."""

    def write(
        self, cells: Array, threads: Array, pc: int, changed: Callable[[], Array], *, atomic: bool = False
    ) -> None:
        """Note that threads write these cells; `changed` finds out where the bytes differ from what was there."""

    def exchange(self, cells: Array, threads: Array, pc: int) -> None:
        """Note atomics: they may race with other accesses, but not with other atomics."""

    def clash(self, cells: Array, threads: Array, lost: Array) -> None:
        """Note that of several threads that stored different values to one cell in one step these were `lost`."""


# kind, cell, thread, the thread before, the instruction before, number of cells
Report = Callable[[str, int, int, int, int, int], None]


class Tracker:
    """The shadow of one memory. Threads are numbered through the whole grid, blocks padded to whole warps."""

    def __init__(self, cells: int, clock: Clock, report: Report) -> None:
        self.clock = clock
        self.report = report
        self.block_size = clock.warps * WARP
        self.writer = np.full(cells, -1, np.int32)
        self.written = np.full(cells, NEVER, np.int64)
        self.reader = np.full(cells, -1, np.int32)
        self.seen = np.full(cells, NEVER, np.int64)
        self.readers = np.zeros(cells, np.int8)
        self.read_by_programs = False  # whether `readers` holds _GRID anywhere

    def reset(self) -> None:
        """Forget everything, as a new block does with its shared memory."""
        self.writer[:] = self.reader[:] = -1
        self.written[:] = self.seen[:] = NEVER

    def read(self, cells: Array, threads: Array, pc: int, *, atomic: bool = False, asynchronous: bool = False) -> None:
        """Note that threads (by number within the block), or units on their behalf, read these cells."""
        clock = self.clock
        threads = threads + clock.program * self.block_size
        written = self.written[cells]
        if clock.may_race(written):
            writer = self.writer[cells]
            race = self._concurrent(writer, written, threads)
            if atomic:
                race &= (written & ATOMIC) == 0
            self._report("read after write", race, cells, threads, writer, written)
        if atomic:
            return
        readers = self._remaining_readers(cells, threads)
        self.reader[cells] = threads
        self.seen[cells] = clock.now + 2 * pc + asynchronous
        last = self.reader[cells]  # of several threads that read one cell in this very step
        if (last != threads).any():
            together = np.where(last == threads, _ONE, np.where(last // WARP == threads // WARP, _WARP, _BLOCK))
            readers = together if readers is None else np.maximum(readers, together)
        self.readers[cells] = _ONE
        if readers is not None:
            highest = int(readers.max())
            for level in range(_WARP, highest + 1):
                self.readers[cells[readers == level]] = level
            self.read_by_programs |= highest == _GRID

    def write(
        self, cells: Array, threads: Array, pc: int, changed: Callable[[], Array], *, atomic: bool = False
    ) -> None:
        """Note that threads write these cells; `changed` finds out where the bytes differ from what was there."""
        clock = self.clock
        threads = threads + clock.program * self.block_size
        written, seen = self.written[cells], self.seen[cells]
        if clock.may_race(written):
            writer = self.writer[cells]
            race = self._concurrent(writer, written, threads) & changed()
            if atomic:
                race &= (written & ATOMIC) == 0
            self._report("write after write", race, cells, threads, writer, written)
        if self.read_by_programs or clock.may_race(seen):
            reader, readers = self.reader[cells], self.readers[cells]
            race = self._concurrent(reader, seen, threads)
            # The last reader may be this very thread, or of this warp, although it was not the only one.
            race |= (readers == _WARP) & (reader == threads) & (seen >= clock.warp[self._warps(threads)])
            race |= (readers == _BLOCK) & (reader // self.block_size == clock.program) & (seen >= clock.block)
            race |= (readers == _GRID) & bool((clock.after.until[clock.ran] < 0).any())
            if race.any():
                self._report("write after read", race & changed(), cells, threads, reader, seen)
        self.writer[cells] = threads
        self.written[cells] = clock.now + 2 * pc + atomic

    def exchange(self, cells: Array, threads: Array, pc: int) -> None:
        """Note atomics: they may race with other accesses, but not with other atomics."""
        self.read(cells, threads, pc, atomic=True)
        self.write(cells, threads, pc, lambda: np.ones(len(cells), np.bool_), atomic=True)

    def clash(self, cells: Array, threads: Array, lost: Array) -> None:
        """Report those of several threads that stored different values to one cell in one step whose value was lost."""
        threads = threads + self.clock.program * self.block_size
        self._report("write after write", lost, cells, threads, self.writer[cells], self.written[cells])

    def check_unwritten(self, cells: Array, threads: Array, written: Array) -> None:
        """Report cells that have been written after these stamps, though the threads' units were still reading."""
        threads = threads + self.clock.program * self.block_size
        now = self.written[cells]
        self._report(OVERWRITTEN, now != written, cells, threads, self.writer[cells], now)

    def check_fenced(self, cells: Array, threads: Array, fenced: Callable[[Array], Array], *, write: bool) -> None:
        """Report cells that threads wrote, or read if they are to be written, without a fence before this access.

        `fenced` maps threads to the stamps before which their accesses are fenced.
        """
        threads = threads + self.clock.program * self.block_size
        writer, written = self.writer[cells], self.written[cells]
        self._report(UNFENCED, (writer >= 0) & (written >= fenced(writer)), cells, threads, writer, written)
        if write:
            reader, seen = self.reader[cells], self.seen[cells]
            hidden = (reader >= 0) & (seen >= fenced(reader)) & (seen % 2 == 0)  # odd: by a unit
            self._report(UNFENCED_READ, hidden, cells, threads, reader, seen)

    def settle(self, cells: Array) -> None:
        """Forget who wrote these cells: all that access them have waited for it. When it was is kept."""
        self.writer[cells] = -1

    def _warps(self, threads: Array) -> Array:
        return (threads % self.block_size) // WARP

    def _concurrent(self, earlier: Array, stamp: Array, threads: Array) -> Array:
        """Whether accesses by `earlier` threads at `stamp` may still be under way."""
        clock = self.clock
        same_warp = earlier // WARP == threads // WARP
        limit = np.where(same_warp, clock.warp[self._warps(threads)], clock.block)
        concurrent = (stamp >= limit) & (earlier != threads)
        programs = earlier // self.block_size
        foreign = programs != clock.program
        if foreign.any():
            concurrent = np.where(foreign, ~clock.after.covers(programs, earlier, stamp), concurrent)
        return np.asarray(concurrent & (earlier >= 0))

    def _remaining_readers(self, cells: Array, threads: Array) -> Array | None:
        """How many readers these cells will have, those before included if a later write may still disturb them.

        None stands for one reader everywhere.
        """
        clock, stamp = self.clock, self.seen[cells]
        if not clock.may_race(stamp):
            if self.read_by_programs:
                return np.where((self.readers[cells] == _GRID) & (stamp >= 0), np.int8(_GRID), np.int8(_ONE))
            return None
        earlier, readers = self.reader[cells], self.readers[cells]
        programs = earlier // self.block_size
        foreign = (programs != clock.program) & (earlier >= 0)
        alive = (stamp >= clock.block) & ~foreign & (earlier >= 0)
        same_warp = earlier // WARP == threads // WARP
        alive_in_warp = stamp >= clock.warp[self._warps(threads)]
        near = np.where((earlier != threads) & alive_in_warp, _WARP, _ONE)
        near = np.maximum(near, np.where((readers == _WARP) & ~alive_in_warp, _ONE, readers))
        level = np.where(alive, np.where(same_warp, near, np.maximum(readers, _BLOCK)), _ONE)
        level = np.where(foreign & ~clock.after.covers(programs, earlier, stamp), _GRID, level)
        return np.where((readers == _GRID) & (earlier >= 0), _GRID, level).astype(np.int8)

    def _report(self, kind: str, race: Array, cells: Array, threads: Array, other: Array, stamps: Array) -> None:
        if race.any():
            first = int(np.argmax(race))
            before = instruction_of(int(stamps[first]))
            self.report(kind, int(cells[first]), int(threads[first]), int(other[first]), before, int(race.sum()))
