"""What happened before what: the synchronizations of the running block, and what it knows of other programs.

A stamp says when an access happened and what it was: synchronizations before it, its instruction, atomic or not. Within
a block barriers order accesses. Between programs nothing does but release and acquire, as PTX defines them: a release
(`st.release`, an atomic with it, or a fence before a relaxed or volatile write) publishes what its thread knows to be
over, and an acquire (`ld.acquire`, an atomic with it, or a relaxed or volatile read before a fence) of what was written
there learns it. A thread that releases alone knows of the others what came before their last common barrier. Where
several threads release or fence in one step, all that their block has done is published; and what one thread
acquires is known to its whole block.
"""

from dataclasses import dataclass, field

import numpy as np

from alphabet_ptx.datatypes import WARP, Array

TICK = 1 << 32
ATOMIC = 1
NEVER = -1
_ALWAYS = np.iinfo(np.int32).max


def instruction_of(stamp: int) -> int:
    """The program counter in a stamp."""
    return (stamp % TICK) >> 1


@dataclass(frozen=True)
class Lead:
    """A thread that released alone: what its warp and the thread itself had done by then is over, as ticks."""

    warp: int
    warp_until: int
    thread: int
    until: int


@dataclass(frozen=True)
class Ordered:
    """What is known to be over: the last tick of each program, and what single threads of some had done beyond it."""

    until: Array
    leads: dict[int, Lead]

    @classmethod
    def nothing(cls, programs: int) -> "Ordered":
        """Nothing of any program is known to be over."""
        return cls(np.full(programs, NEVER, np.int32), {})

    def join(self, other: "Ordered") -> "Ordered":
        """What one of the two knows; of several threads of a program it keeps the one that was heard of last."""
        leads = self.leads
        if other.leads:
            leads = dict(leads)
            for program, lead in other.leads.items():
                known = leads.get(program)
                if known is None or known.until < lead.until:
                    leads[program] = lead
        return Ordered(np.maximum(self.until, other.until), leads)

    def covers(self, programs: Array, threads: Array, stamps: Array) -> Array:
        """Whether accesses by these threads (numbered through the grid) of these programs are known to be over."""
        ticks = stamps // TICK
        over = ticks <= self.until[programs]
        if self.leads:
            for program in map(int, np.unique(programs[~over])):
                lead = self.leads.get(program)
                if lead is not None:
                    over |= (threads // WARP == lead.warp) & (ticks <= lead.warp_until)
                    over |= (threads == lead.thread) & (ticks <= lead.until)
        return np.asarray(over)


@dataclass(frozen=True)
class Past:
    """What the clock keeps of a program while another one runs."""

    program: int
    block: int
    warp: Array
    after: Ordered
    observed: Ordered | None
    fenced: Ordered | None


@dataclass
class Clock:
    """The synchronizations of the running block, as stamps, and what it is known to come after.

    Accesses stamped before `block` are over for the whole block, those before `warp` for that warp; those before
    `began` may have been other programs'.
    """

    warps: int
    programs: int
    now: int = 0
    began: int = 0
    block: int = 0
    program: int = 0
    warp: Array = field(init=False)
    ran: Array = field(init=False)  # programs that have started
    several: bool = False  # whether more than one has
    after: Ordered = field(init=False)
    observed: Ordered | None = None  # read, and known from the next fence on
    fenced: Ordered | None = None  # what a relaxed write publishes: known at the last fence
    released: dict[int, Ordered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.warp = np.zeros(self.warps, np.int64)
        self.ran = np.zeros(self.programs, np.bool_)
        self.after = Ordered.nothing(self.programs)

    def start(self, program: int) -> None:
        """Start a new program, which nothing orders after those before it."""
        self.program = program
        self.several = bool(self.ran.any())
        self.ran[program] = True
        self.after = Ordered.nothing(self.programs)
        self.after.until[program] = _ALWAYS
        self.observed = self.fenced = None
        self.meet_block()
        self.began = self.now

    def suspend(self) -> Past:
        """What `resume` needs to go on with this program later."""
        return Past(self.program, self.block, self.warp.copy(), self.after, self.observed, self.fenced)

    def resume(self, past: Past) -> None:
        """Go on with a program that was suspended; what happened meanwhile was other programs'."""
        self.now += TICK
        self.began = self.now
        self.program, self.block, self.after = past.program, past.block, past.after
        self.observed, self.fenced = past.observed, past.fenced
        self.warp[:] = past.warp

    def tick(self) -> None:
        """Let the stamps that follow be later than those before, though nothing is over."""
        self.now += TICK

    def meet_block(self, programs: Array | None = None) -> None:  # noqa: ARG002  for several at once
        """Pass a barrier of the whole block, in these programs if several run at once."""
        self.now += TICK
        self.block = self.now
        self.warp[:] = self.now

    def meet_warps(self, warps: Array) -> None:
        """Pass a barrier within each of these warps."""
        self.now += TICK
        self.warp[warps] = self.now

    def fence(self, threads: Array) -> None:
        """Pass a fence: what was read before is known from now on, and what is known now may be published."""
        if self.observed is not None:
            self.after, self.observed = self.after.join(self.observed), None
        self.fenced = self._publish(threads)

    def synchronize(
        self, where: Array, threads: Array, *, acquire: bool, release: bool, read: bool = True, write: bool = True
    ) -> None:
        """Note a strong access at these places: a read, a write, or both, as atomics do."""
        if not (release or self.fenced is not None or self.released):
            return
        given = self._publish(threads) if release else self.fenced
        heard: dict[int, Ordered] = {}
        joined: dict[int, Ordered] = {}  # many places share one knowledge
        for place in map(int, np.unique(where)):
            known = self.released.get(place)
            if known is not None:
                heard[id(known)] = known
            if not write:
                continue
            if read and known is not None and given is not None:
                if id(known) not in joined:
                    joined[id(known)] = known.join(given)
                self.released[place] = joined[id(known)]
            elif given is not None:
                self.released[place] = given
            elif not read:
                self.released.pop(place, None)  # who reads this write does not meet the release before it
        if read:
            for known in heard.values():
                if acquire:
                    self.after = self.after.join(known)
                else:
                    self.observed = known if self.observed is None else self.observed.join(known)

    def _publish(self, threads: Array) -> Ordered:
        """What these threads know to be over; what happens from now on is not part of it."""
        now, block = self.now // TICK, self.block // TICK
        self.now += TICK
        until, leads = self.after.until.copy(), self.after.leads
        until[self.program] = now
        if len(threads) == 1:
            first = self.program * self.warps  # the number of the block's first warp
            thread, warp = int(threads[0]), int(threads[0]) // WARP
            until[self.program] = block - 1
            lead = Lead(first + warp, int(self.warp[warp]) // TICK - 1, first * WARP + thread, now)
            leads = {**leads, self.program: lead}
        return Ordered(until, leads)

    def may_race(self, stamps: Array) -> bool:
        """Whether anything may be unordered with accesses at these stamps: a quick answer, and `no` is certain.

        Certain are cells that nobody accessed, and accesses by this program before its last block barrier.
        """
        if stamps.max() >= self.block:
            return True
        return self.several and int(stamps.view(np.uint64).min()) < self.began  # where NEVER is the largest number
