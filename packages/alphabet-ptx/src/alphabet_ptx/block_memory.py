"""The memories of a block: shared memory, the asynchronous copies into it, and each thread's local memory.

Several programs may run at once (see `batches`): then each has its own piece, one behind the other, at the same
addresses.
"""

from dataclasses import dataclass

import numpy as np

from alphabet_ptx.conflicts import ConflictTracker
from alphabet_ptx.datatypes import Array
from alphabet_ptx.memory import POISON, WIDEST, Memory


class SharedMemory(Memory):
    """The memory that the threads of a block share: `size` bytes for each of the programs that run at once."""

    name = "shared"

    def __init__(self, size: int, programs: int, threads: int) -> None:
        padded = -(-size // 16) * 16
        super().__init__(padded * programs)
        self.size = size
        # Where the piece of a thread's program begins; None if there is one program.
        self.base = np.repeat(np.arange(programs) * padded, threads) if programs > 1 else None

    def start(self) -> None:
        """Start a block, for which the contents are unknown."""
        self.bytes[:] = POISON
        if self.tracker is not None:
            self.tracker.reset()

    def offsets(self, addresses: Array, size: int, threads: Array, *, write: bool, edge: bool = False) -> Array:
        where = super().offsets(addresses, size, threads, write=write, edge=edge)
        return where if self.base is None else where + self.base[threads]

    def load_rows(self, addresses: Array, threads: Array, pc: int) -> Array:
        """Rows of 16 bytes as words, (rows, 4), that warps load together while programs run at once."""
        assert isinstance(self.tracker, ConflictTracker)
        where = self.offsets(addresses, WIDEST, threads, write=False)
        self.tracker.read(*self.cells_of(where, WIDEST, threads), pc, by_warp=True)
        rows = self.widest[WIDEST][where // WIDEST]
        return np.asarray(rows.view(np.uint32).reshape(-1, 4))


class LocalMemory(Memory):
    """The memory that each thread has for itself: `size` bytes per thread, one thread's after another's."""

    name = "local"

    def __init__(self, size: int, threads: int) -> None:
        padded = -(-size // 16) * 16
        super().__init__(padded * threads)
        self.size, self.stride = size, padded
        # Registers are spilled here and arguments handed over: what is unknown stays unknown, byte by byte.
        self.unknown = np.ones(len(self.bytes), np.bool_)

    def start(self) -> None:
        """Start a block, for which the contents are unknown."""
        assert self.unknown is not None
        self.bytes[:] = POISON
        self.unknown[:] = True

    def offsets(self, addresses: Array, size: int, threads: Array, *, write: bool, edge: bool = False) -> Array:
        return np.asarray(super().offsets(addresses, size, threads, write=write, edge=edge) + threads * self.stride)


@dataclass(frozen=True)
class Copy:
    """Data on its way to shared memory: a row of 32-bit words per thread, and the number of each thread's group."""

    threads: Array
    addresses: Array
    words: Array
    groups: Array

    def part(self, chosen: Array) -> "Copy":
        """What some of the threads copy."""
        return Copy(self.threads[chosen], self.addresses[chosen], self.words[chosen], self.groups[chosen])


class PendingCopies:
    """Asynchronous copies (cp.async): nothing arrives before it is waited for, and until then its place is poisoned."""

    def __init__(self, shared: SharedMemory, programs: int, threads: int) -> None:
        self.shared = shared
        self.program_of = np.repeat(np.arange(programs), threads)
        self.committed = np.zeros(programs, np.int64)  # groups of each program
        self.start()

    def start(self) -> None:
        """Start a block, which knows nothing of the copies of the block before it."""
        self.copies: list[Copy] = []
        self.committed[:] = 0

    def issue(self, threads: Array, addresses: Array, words: Array, pc: int) -> None:
        """Start a copy whose data has been read; its place holds NaN until it arrives."""
        copy = Copy(threads, addresses, words, self.committed[self.program_of[threads]])
        self._store(copy, np.full_like(words, 0xFFFFFFFF), pc)
        self.copies.append(copy)

    def commit(self, programs: Array | slice) -> None:
        """Close the group of the copies that these programs started since the last one."""
        self.committed[programs] += 1

    def wait(self, remaining: int, programs: Array | slice, pc: int) -> None:
        """Let all groups of these programs arrive except the last `remaining`."""
        limits = np.zeros_like(self.committed)
        limits[programs] = self.committed[programs] - remaining
        pending = []
        for copy in self.copies:
            arrived = copy.groups < limits[self.program_of[copy.threads]]
            if arrived.all():
                self._store(copy, copy.words, pc)
                continue
            if arrived.any():
                part = copy.part(arrived)
                self._store(part, part.words, pc)
            pending.append(copy.part(~arrived) if arrived.any() else copy)
        self.copies = pending

    def _store(self, copy: Copy, words: Array, pc: int) -> None:
        self.shared.store(copy.addresses, 4, list(words.T), copy.threads, pc)
