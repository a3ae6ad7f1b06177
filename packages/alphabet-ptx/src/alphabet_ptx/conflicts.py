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
# Beside the last reader of a cell others have read it that still matter: of its warp, of its program, of other ones.
_WARP, _PROGRAM, _GRID = (1 << bit for bit in range(_THREAD_BITS, _THREAD_BITS + 3))
_OTHERS = _WARP | _PROGRAM | _GRID
# In the stamps of writes these bits are free: one marks atomics.
_BY_ATOMIC = _WARP
_TIME_BITS = _THREAD_BITS + 3
# The stamp of cells whose atomics are deferred, with the number of the operation.
_DEFERRED = 1 << 62


_maximum = np.maximum.reduce  # what the method does behind two calls of Python


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
        self.stamp = self.first * self.warps * WARP + (self.time << _TIME_BITS)  # of the first thread, now
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

    def read(self, cells: Array, threads: Array, pc: int, *, atomic: bool = False, by_warp: bool = False) -> None:
        """Note that threads read these cells, or with `by_warp` all threads of their warps."""
        written, seen = self.written[cells], self.seen[cells]
        stamps = threads + (self.clock.stamp | _WARP if by_warp else self.clock.stamp)
        floor = self.clock.floor if self.private else 0
        if _maximum(written) >= floor:
            self._compare(written & ~_OTHERS, stamps, threads, by_warp=by_warp)
        repeated = _maximum(seen) >= floor
        self.seen[cells] = stamps
        last = self.seen[cells]
        if np.count_nonzero(last != stamps):  # several threads read one cell in this very step
            self._note_others(cells, last ^ stamps)
        if repeated:
            self._keep_earlier(cells, seen, stamps, threads)

    def write(
        self, cells: Array, threads: Array, pc: int, changed: Callable[[], Array], *, atomic: bool = False
    ) -> None:
        """Note that threads write these cells; `changed` finds out where the bytes differ from what was there."""
        written, seen = self.written[cells], self.seen[cells]
        stamps = threads + self.clock.stamp
        floor = self.clock.floor if self.private else 0
        if _maximum(written) >= floor:
            self._compare(written & ~_OTHERS, stamps, threads, changed)
        if _maximum(seen) >= floor:
            self._compare(seen, stamps, threads, changed)
        self.written[cells] = stamps
        if not self.private and ((self.written[cells] ^ stamps) >= self.size).any():
            raise Conflict("two programs write the same place")

    def clash(self, cells: Array, threads: Array, lost: Array) -> None:
        """Note that threads stored different values to one cell in one step."""
        raise Conflict("threads store different values to one place in one step")

    def exchange(self, cells: Array, threads: Array, pc: int) -> None:
        """Note atomics in the programs' own memory: they may race with other accesses, not with each other."""
        if not self.private:
            raise Conflict("atomics in global memory whose results are used")
        stamps = threads + self.clock.stamp
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

    def _note_others(self, cells: Array, differences: Array) -> None:
        """Note that cells have been read by others than the last reader, whose number differs in these bits."""
        for flag, least in ((_WARP, 1), (_PROGRAM, WARP), (_GRID, self.size)):
            chosen = cells[differences >= least]
            if not chosen.size:
                return
            self.seen[chosen] = self.seen[chosen] | flag

    def _limits(self, threads: Array, difference: Array) -> Array:
        """The stamps before which accesses are over for these threads, by the warp or by the program."""
        clock = self.clock
        return np.where(difference < WARP, clock.warp[threads // WARP], clock.blocks[threads // self.size])

    def _compare(
        self,
        earlier: Array,
        stamps: Array,
        threads: Array,
        changed: Callable[[], Array] | None = None,
        *,
        by_warp: bool = False,
    ) -> None:
        """Raise Conflict if one of the earlier accesses is another program's, or may still be under way."""
        there = earlier >= 0
        difference = (earlier ^ stamps) & _THREAD
        if not self.private:
            foreign = (difference >= self.size) | ((earlier & _GRID) != 0) | (earlier >= _DEFERRED)
            if (there & foreign).any():
                raise Conflict("a program touches what another one has touched, and one of them writes it")
        # The last one may be this very thread, or of this warp, although it was not the only one.
        apart = np.where(earlier & _PROGRAM, WARP, np.where(by_warp | (earlier & _WARP), difference | 1, difference))
        doubtful = there & (apart != 0) & (earlier >= self._limits(threads, apart))
        if doubtful.any() and (changed is None or (doubtful & changed()).any()):
            raise Conflict("threads touch one place, one of them writes it, and no barrier is between")

    def _keep_earlier(self, cells: Array, seen: Array, stamps: Array, threads: Array) -> None:
        """Note earlier readers of cells that were read again, if a later write may still disturb them."""
        there = seen >= 0
        difference = (seen ^ stamps) & _THREAD
        alive = there & (seen >= self.clock.blocks[threads // self.size])
        in_warp = alive & (seen >= self.clock.warp[threads // WARP])
        others = np.where(in_warp & ((difference != 0) | ((seen & _WARP) != 0)), 1, 0)
        others = np.where(alive & ((difference >= WARP) | ((seen & _PROGRAM) != 0)), WARP, others)
        if not self.private:
            others = np.where(there & ((difference >= self.size) | ((seen & _GRID) != 0)), self.size, others)
        self._note_others(cells, others)
