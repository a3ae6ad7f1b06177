"""Whether programs that run at once could have been told apart from programs that run one after another.

They cannot if no program touches what another one writes, and if within each of them every access is in order. What is
looked for here is any doubt about that, not a description: then the launch runs again, program by program, which says
what is wrong, if anything is. So a stamp is one number: the time, how many threads have read, and the thread.
Threads are numbered through the grid; a program has a power of two of them.
"""
# ruff: noqa: ARG002  a shadow that describes races takes more

from collections.abc import Callable

import numpy as np

from alphabet_ptx.clock import Clock
from alphabet_ptx.datatypes import WARP, Array

NEVER = -1
_THREAD_BITS = 31
_THREAD = (1 << _THREAD_BITS) - 1
_TIME_BITS = _THREAD_BITS + 2
# Readers of a cell that still matter: one thread, threads of one warp, of one program, of several.
_ONE, _WARP, _PROGRAM, _GRID = (level << _THREAD_BITS for level in range(4))
_LEVELS = _GRID
# In the stamps of writes these bits are free: one marks atomics.
_BY_ATOMIC = _WARP
# The stamp of cells whose atomics are deferred, with the number of the operation.
_DEFERRED = 1 << 62


class Conflict(Exception):  # noqa: N818  no mistake of anybody
    """Programs that run at once may not have done what they would have done one after another."""


class BatchClock(Clock):
    """The synchronizations of programs that run at once, each of which has barriers of its own.

    Accesses stamped before `blocks` are over for that program, those before `warp` for that warp.
    """

    def __init__(self, warps: int, programs: int) -> None:
        super().__init__(warps, programs)
        self.time = 0
        self.begin(0, 1)

    def begin(self, first: int, count: int) -> None:
        """Start `count` programs from number `first` on."""
        self.first, self.count = first, count
        self.time += 1
        self.blocks = np.full(count, self.time << _TIME_BITS, np.int64)
        self.warp = np.full(count * self.warps, self.time << _TIME_BITS, np.int64)
        self.look_at(None)

    def look_at(self, programs: Array | None) -> None:
        """Let `floor` hold for these programs, or all: accesses stamped before it are over for each of them."""
        self.looked_at = programs
        self.floor = int((self.blocks if programs is None else self.blocks[programs]).min())

    def meet_block(self, programs: Array | None = None) -> None:
        self.time += 1
        now = self.time << _TIME_BITS
        if programs is None:
            self.blocks[:] = self.warp[:] = now
        else:
            self.blocks[programs] = now
            self.warp.reshape(self.count, self.warps)[programs] = now
        self.look_at(self.looked_at)

    def meet_warps(self, warps: Array) -> None:
        self.time += 1
        self.warp[warps] = self.time << _TIME_BITS
        if self.warps == 1:
            self.blocks[warps] = self.time << _TIME_BITS
            self.look_at(self.looked_at)

    def fence(self, threads: Array) -> None:
        """Fences order programs with each other; here nothing may have to be ordered."""

    def synchronize(
        self, where: Array, threads: Array, *, acquire: bool, release: bool, read: bool = True, write: bool = True
    ) -> None:
        """As for fences."""


class ConflictTracker:
    """The shadow of one memory while programs run at once; `private` if each has its own piece of it."""

    def __init__(self, cells: int, clock: BatchClock, *, private: bool) -> None:
        self.clock = clock
        self.private = private
        self.size = clock.warps * WARP
        self.written = np.full(cells, NEVER, np.int64)
        self.seen = np.full(cells, NEVER, np.int64)

    def reset(self) -> None:
        """Forget everything, as new programs do with their shared memory."""
        self.written[:] = self.seen[:] = NEVER

    def read(self, cells: Array, threads: Array, pc: int, *, atomic: bool = False) -> None:
        """Note that threads read these cells."""
        clock = self.clock
        written = self.written[cells]
        stamps = threads + (clock.first * self.size + (clock.time << _TIME_BITS))
        floor = clock.floor if self.private else 0
        if int(written.max()) >= floor:
            self._compare(written & ~_LEVELS, stamps, threads)
        seen = self.seen[cells]
        levels = self._earlier(seen, stamps, threads) if int(seen.max()) >= floor else None
        self.seen[cells] = stamps
        difference = (self.seen[cells] ^ stamps) & _THREAD
        if difference.any():  # several threads read one cell in this very step
            together = self._level(difference)
            levels = together if levels is None else np.maximum(levels, together)
        if levels is not None:
            for level in (_WARP, _PROGRAM, _GRID):
                chosen = cells[levels == level]
                if chosen.size:
                    self.seen[chosen] = (self.seen[chosen] & ~_LEVELS) | level

    def write(
        self, cells: Array, threads: Array, pc: int, changed: Callable[[], Array], *, atomic: bool = False
    ) -> None:
        """Note that threads write these cells; `changed` finds out where the bytes differ from what was there."""
        clock = self.clock
        written, seen = self.written[cells], self.seen[cells]
        stamps = threads + (clock.first * self.size + (clock.time << _TIME_BITS))
        floor = clock.floor if self.private else 0
        if int(written.max()) >= floor:
            self._compare(written & ~_LEVELS, stamps, threads, changed)
        if int(seen.max()) >= floor:
            self._compare(seen, stamps, threads, changed)
        self.written[cells] = stamps
        if not self.private and (((self.written[cells] ^ stamps) & _THREAD) >= self.size).any():
            raise Conflict("two programs write the same place")

    def clash(self, cells: Array, threads: Array, lost: Array) -> None:
        """Note that threads stored different values to one cell in one step."""
        raise Conflict("threads store different values to one place in one step")

    def exchange(self, cells: Array, threads: Array, pc: int) -> None:
        """Note atomics in the programs' own memory: they may race with other accesses, not with each other."""
        if not self.private:
            raise Conflict("atomics in global memory whose results are used")
        clock = self.clock
        stamps = threads + (clock.first * self.size + (clock.time << _TIME_BITS))
        written = self.written[cells]
        self._compare(np.where(written & _BY_ATOMIC, NEVER, written), stamps, threads)
        self._compare(self.seen[cells], stamps, threads)
        self.written[cells] = stamps | _BY_ATOMIC

    def defer(self, cells: Array, operation: int) -> None:
        """Note atomics of several programs that will be carried out later: nothing else may touch their cells."""
        written = self.written[cells]
        stamp = _DEFERRED | operation
        if not ((written == NEVER) | (written == stamp)).all() or (self.seen[cells] != NEVER).any():
            raise Conflict("a place is changed by atomics and in other ways")
        self.written[cells] = stamp

    def _level(self, difference: Array) -> Array:
        """Which readers a cell has that threads read whose numbers differ in these bits."""
        own = np.where(difference < WARP, _WARP, _PROGRAM)
        return np.where(difference == 0, _ONE, own if self.private else np.where(difference < self.size, own, _GRID))

    def _limits(self, threads: Array, difference: Array) -> Array:
        """The stamps before which accesses are over for these threads, by the warp or by the program."""
        clock = self.clock
        return np.where(difference < WARP, clock.warp[threads // WARP], clock.blocks[threads // self.size])

    def _compare(
        self, earlier: Array, stamps: Array, threads: Array, changed: Callable[[], Array] | None = None
    ) -> None:
        """Raise Conflict if one of the earlier accesses is another program's, or may still be under way."""
        difference = (earlier ^ stamps) & _THREAD
        levels = earlier & _LEVELS
        there = earlier >= 0
        if (
            not self.private
            and (there & ((difference >= self.size) | (levels == _GRID) | (earlier >= _DEFERRED))).any()
        ):
            raise Conflict("a program touches what another one has touched, and one of them writes it")
        # The last reader may be this very thread, or of this warp, although it was not the only one.
        apart = np.where(levels == _PROGRAM, WARP, np.where((levels == _WARP) & (difference == 0), 1, difference))
        doubtful = there & (apart != 0) & (earlier >= self._limits(threads, apart))
        if doubtful.any() and (changed is None or (doubtful & changed()).any()):
            raise Conflict("threads touch one place, one of them writes it, and no barrier is between")

    def _earlier(self, seen: Array, stamps: Array, threads: Array) -> Array:
        """Which readers these cells will have, those before included if a later write may still disturb them."""
        clock = self.clock
        difference = (seen ^ stamps) & _THREAD
        levels = seen & _LEVELS
        there = seen >= 0
        alive = there & (seen >= clock.blocks[threads // self.size])
        in_warp = seen >= clock.warp[threads // WARP]
        near = np.where((difference != 0) & in_warp, _WARP, _ONE)
        near = np.maximum(near, np.where((levels == _WARP) & ~in_warp, _ONE, levels))
        result = np.where(alive, np.where(difference < WARP, near, np.maximum(levels, _PROGRAM)), _ONE)
        if self.private:
            return result
        return np.where(there & ((difference >= self.size) | (levels == _GRID)), _GRID, result)
