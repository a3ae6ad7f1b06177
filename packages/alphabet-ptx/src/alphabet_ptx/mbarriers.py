"""mbarrier objects: counters in shared memory that threads and asynchronous copies arrive at, and threads wait for.

A phase ends when all expected arrivals have come and all expected bytes have been transferred. A copy ends at some
time; here it ends when a thread asks whether the phase has ended and nothing else is missing. What it transfers is in
place from then on, and NaN before, so that a thread that does not wait sees it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from alphabet_ptx.datatypes import Array, Mask
from alphabet_ptx.elementwise import parts
from alphabet_ptx.errors import PtxError, WaitError
from alphabet_ptx.machine import Binder, Block, Step, Unit
from alphabet_ptx.program import Immediate, Instruction, Operand, Symbol
from alphabet_ptx.transfers import spread

BYTES = 8
_LIMIT = (1 << 20) - 1


@dataclass
class Barrier:
    """One mbarrier: arrivals and bytes that its phase waits for, how many phases have ended, copies under way."""

    expected: int
    pending: int
    transfer: int = 0
    phase: int = 0
    copies: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def end_phase(self) -> None:
        """Start the next phase if nothing is missing but copies that are under way, and let these arrive."""
        if self.pending == 0 and self.transfer == sum(size for size, _ in self.copies):
            for _, deliver in self.copies:
                deliver()
            self.copies = []
            self.transfer = 0
            self.phase += 1
            self.pending = self.expected


class Barriers(Unit):
    """The mbarriers of a block by their addresses."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.start()

    def start(self) -> None:
        self.barriers: dict[int, Barrier] = {}

    def end(self) -> None:
        """End a block: its shared memory goes to another one, so that nothing may write it any more."""
        if any(barrier.copies for barrier in self.barriers.values()):
            raise PtxError("the block ended before a bulk copy to its shared memory was waited for")

    def find(self, address: int, thread: int) -> Barrier:
        """The mbarrier at an address."""
        barrier = self.barriers.get(address)
        if barrier is None:
            raise PtxError(f"no mbarrier was initialised at {address:#x} of shared memory", thread=thread)
        self.block.progress += 1  # whoever waits may look again
        return barrier

    def initialise(self, thread: int, address: int, count: int) -> None:
        """Make an mbarrier that waits for so many arrivals."""
        if address in self.barriers:
            raise PtxError(f"the mbarrier at {address:#x} is initialised again without mbarrier.inval", thread=thread)
        if not 1 <= count <= _LIMIT:
            raise PtxError(f"an mbarrier takes 1 to {_LIMIT} arrivals; found {count}", thread=thread)
        self._write(thread, address)
        self.barriers[address] = Barrier(count, count)

    def invalidate(self, thread: int, address: int) -> None:
        """Give the memory of an mbarrier back."""
        if self.find(address, thread).copies:
            raise PtxError(f"the mbarrier at {address:#x} is invalidated before a copy was waited for", thread=thread)
        self._write(thread, address)
        del self.barriers[address]

    def arrive(self, thread: int, address: int, count: int) -> int:
        """Arrive so many times; returns the number of the phase."""
        barrier = self.find(address, thread)
        if barrier.pending == 0:
            barrier.end_phase()  # nobody has waited for its copies, but they came
        if not 1 <= count <= barrier.pending:
            raise PtxError(f"{count} arrivals at an mbarrier whose phase waits for {barrier.pending}", thread=thread)
        phase = barrier.phase
        barrier.pending -= count
        if not barrier.copies:
            barrier.end_phase()
        return phase

    def expect(self, thread: int, address: int, size: int) -> None:
        """Let the phase wait for so many bytes more."""
        self.find(address, thread).transfer += size

    def expect_and_arrive(self, thread: int, address: int, size: int) -> int:
        """Let the phase wait for so many bytes more, and arrive."""
        if self.find(address, thread).pending == 0:
            self.barriers[address].end_phase()
        self.expect(thread, address, size)
        return self.arrive(thread, address, 1)

    def complete(self, thread: int, address: int, size: int) -> None:
        """Note that so many bytes were transferred."""
        barrier = self.find(address, thread)
        barrier.transfer -= size
        if not barrier.copies:
            barrier.end_phase()

    def copy(self, thread: int, address: int, size: int, deliver: Callable[[], None]) -> None:
        """Start a copy of so many bytes, which `deliver` puts in place."""
        self.find(address, thread).copies.append((size, deliver))

    def has_ended(self, address: int, phase: int, thread: int) -> bool:
        """Whether the current or the last phase with this number or parity has ended."""
        progress = self.block.progress
        barrier = self.find(address, thread)
        self.block.progress = progress  # looking changes nothing
        barrier.end_phase()
        return (barrier.phase ^ phase) & 1 == 1

    def _write(self, thread: int, address: int) -> None:
        bits = np.array([np.iinfo(np.uint64).max], np.uint64)
        self.block.shared.store(np.array([address]), BYTES, [bits], np.array([thread]), self.block.pc)


class _Operands:
    """An mbarrier's address and further operands, one set for each active thread."""

    def __init__(self, instruction: Instruction, block: Block, address: Operand, *values: tuple[Operand, str]) -> None:
        self.block = block
        self.opcode = instruction.opcode
        self.locate = block.address(address)
        self.sources = [block.source(value, kind) for value, kind in values]
        self.names = block.names(*(value for value, _ in values))

    def __call__(self, mask: Mask | None) -> tuple[Array, Array, list[Array]]:
        self.block.require(self.names, mask, f"an operand of {self.opcode}")
        threads, addresses = self.locate(mask)
        self.block.shared.offsets(addresses, BYTES, threads, write=True)
        return threads, addresses, [source[threads] for source in self.sources]


def _change(method: Callable[..., int | None], default: int | None = None, *, atomic: bool = True) -> Binder:
    """An instruction that each thread executes by itself: a method of Barriers of thread, address and one operand.

    Arrivals have a result, the state of the mbarrier, which is the number of its phase.
    """

    def bind(instruction: Instruction, block: Block) -> Step:
        barriers = block.unit(Barriers)
        operands = list(instruction.operands)
        target = operands.pop(0) if parts(instruction)[1] == "arrive" else Symbol("_")
        values = [(each, "u32") for each in operands[1:] or ([] if default is None else [Immediate(str(default))])]
        read = _Operands(instruction, block, operands[0], *values)
        write = block.destination(target, "b64")

        def step(mask: Mask | None) -> None:
            threads, addresses, given = read(mask)
            if atomic:
                block.shared.note_atomic(addresses, BYTES, threads, block.pc)
            rows = zip(threads, addresses, *given, strict=True)
            states = [method(barriers, *(int(value) for value in row)) or 0 for row in rows]
            write(spread(np.array(states, np.uint64), threads, block.threads), mask)
            for name in block.names(target):
                block.mark_written(name, mask)

        return step

    return bind


def _wait(instruction: Instruction, block: Block) -> Step:
    """test_wait and try_wait: the latter lets other threads run first until the phase has ended."""
    barriers = block.unit(Barriers)
    blocking, parity = "try_wait" in instruction.opcode, "parity" in parts(instruction)
    target, address, phase, *_ = instruction.operands  # a limit of time may follow
    read = _Operands(instruction, block, address, (phase, "u32" if parity else "b64"))
    write = block.destination(target, "pred")

    def step(mask: Mask | None) -> None:
        threads, addresses, (phases,) = read(mask)
        asked = np.stack([addresses, phases.astype(np.int64)], axis=1)
        different, which = np.unique(asked, axis=0, return_inverse=True)
        first = int(threads[0])
        ended = np.array([barriers.has_ended(int(place), int(number), first) for place, number in different])
        if blocking and not ended.any():
            raise WaitError(
                f"{instruction.opcode} waits for a phase of the mbarrier at {int(addresses[0]):#x} that nothing ends",
                thread=first,
            )
        block.shared.note_atomic(addresses, BYTES, threads, block.pc)
        write(spread(ended[which.ravel()], threads, block.threads), mask)
        for name in block.names(target):
            block.mark_written(name, mask)

    return step


_SHARED = ".shared[::cta].b64"
_ORDER = "[.{release,relaxed}.{cta,cluster}]"

TABLE: dict[str, Binder] = {
    f"mbarrier.init{_SHARED}": _change(Barriers.initialise, atomic=False),
    f"mbarrier.inval{_SHARED}": _change(Barriers.invalidate, atomic=False),
    f"mbarrier.arrive{_ORDER}{_SHARED}": _change(Barriers.arrive, 1),
    f"mbarrier.arrive.expect_tx{_ORDER}{_SHARED}": _change(Barriers.expect_and_arrive),
    f"mbarrier.expect_tx[.relaxed.{{cta,cluster}}]{_SHARED}": _change(Barriers.expect),
    f"mbarrier.complete_tx[.relaxed.{{cta,cluster}}]{_SHARED}": _change(Barriers.complete),
    f"mbarrier.{{test_wait,try_wait}}[.parity][.{{acquire,relaxed}}.{{cta,cluster}}]{_SHARED}": _wait,
}
