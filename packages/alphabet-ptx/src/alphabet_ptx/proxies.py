"""How asynchronous units (wgmma, bulk copies) see shared memory, and what orders them with the threads' own accesses.

Such a unit reaches memory through the async proxy. What threads have stored is visible to it after
fence.proxy.async: by the thread that stored it, or by another one that a barrier puts after the store. It reads
at any time from its start until it is waited for; bytes that are written meanwhile are a race.
"""

from dataclasses import dataclass

import numpy as np

from alphabet_ptx.block_memory import SharedMemory
from alphabet_ptx.datatypes import WARP, Array, Mask
from alphabet_ptx.machine import Block, Unit
from alphabet_ptx.races import Tracker

CHUNK = 16  # bytes; asynchronous units move no less


@dataclass(frozen=True)
class Reading:
    """Chunks of shared memory that a unit reads, `words` (chunks, 4), and when each cell had last been written."""

    addresses: Array
    threads: Array
    words: Array
    written: Array


class AsyncProxy(Unit):
    """The asynchronous units' access to a block's shared memory."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.start()

    def start(self) -> None:
        # Writes stamped before these are visible: a thread's own, those of its warp, those of the block.
        self.fenced = np.zeros(self.block.threads, np.int64)
        self.fenced_warps = np.zeros(self.block.warps, np.int64)
        self.fenced_block = 0

    @property
    def memory(self) -> SharedMemory:
        """The block's shared memory."""
        return self.block.shared

    @property
    def tracker(self) -> Tracker:
        """The race tracker of shared memory."""
        tracker = self.memory.tracker
        assert isinstance(tracker, Tracker)  # a launch sets it
        return tracker

    def fence(self, mask: Mask | None) -> None:
        """Make visible what the active threads stored, and what barriers put before this fence."""
        clock = self.block.clock
        clock.tick()
        threads = self.block.all_threads if mask is None else np.flatnonzero(mask)
        warps = np.unique(threads // WARP)
        self.fenced[threads] = clock.now
        self.fenced_warps[warps] = clock.warp[warps]
        self.fenced_block = clock.block

    def read(self, addresses: Array, threads: Array) -> Reading:
        """Start to read chunks on behalf of these threads, one for each address."""
        where = self.memory.offsets(addresses, CHUNK, threads, write=False)
        words = self.memory.views[4][(where // 4)[:, None] + np.arange(4)]
        cells, readers = self._cells(addresses, threads)
        self.tracker.read(cells, readers, self.block.pc, asynchronous=True)
        self.tracker.check_fenced(cells, readers, self._limits, write=False)
        return Reading(addresses, threads, words, self.tracker.written[cells])

    def finish(self, reading: Reading) -> None:
        """End a reading that was waited for: report bytes that were written meanwhile."""
        cells, readers = self._cells(reading.addresses, reading.threads)
        self.tracker.check_unwritten(cells, readers, reading.written)
        self.tracker.read(cells, readers, self.block.pc, asynchronous=True)

    def write_later(self, addresses: Array, threads: Array) -> None:
        """Start to write chunks, which hold NaN until their data arrives."""
        cells, writers = self._cells(addresses, threads)
        self.memory.offsets(addresses, CHUNK, threads, write=True)
        self.tracker.check_fenced(cells, writers, self._limits, write=True)
        self.block.clock.tick()  # so that no other write has its stamp
        nothing = np.full(len(addresses), np.iinfo(np.uint32).max, np.uint32)
        self.memory.store(addresses, 4, [nothing] * 4, threads, self.block.pc)

    def deliver(self, addresses: Array, words: Array) -> None:
        """Let the data of a write arrive, for threads that have waited for it."""
        view = self.memory.views[4]
        view[(addresses // 4)[:, None] + np.arange(4)] = words
        self.tracker.settle(self._cells(addresses, addresses)[0])

    def _cells(self, addresses: Array, threads: Array) -> tuple[Array, Array]:
        return self.memory.cells_of(addresses, CHUNK, threads)

    def _limits(self, numbers: Array) -> Array:
        """The stamps before which accesses of threads, by their numbers in the grid, are fenced."""
        threads = numbers % self.tracker.block_size % self.block.threads
        own = np.maximum(self.fenced[threads], self.fenced_warps[threads // WARP])
        return np.asarray(np.maximum(own, self.fenced_block))
