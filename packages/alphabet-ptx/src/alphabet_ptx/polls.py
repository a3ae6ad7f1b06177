"""Loops that wait for a value: the same read again and again, with the same result.

A loop that counts reads the same value as often as it likes, and ends without anybody's help. So a read that does not
say that another program may answer it (neither volatile nor atomic nor ordered) is taken for waiting only if the
block is where it was: with the same registers and memory it cannot do anything else the next time.
"""

from collections import Counter
from collections.abc import Callable

from alphabet_ptx.datatypes import Array

# So many equal results in a row are taken for waiting. A wrong guess does no harm where programs expect each other's
# values in any order: another program runs for a while.
PATIENCE = 32
# Weak reads are repeated for other reasons, too: so many of them, and what the block knows is compared then and again
# after so many more.
WEAK_PATIENCE = 512
WEAK_REPEATS = 256


class Polls:
    """What each reading instruction of a block found last, and how often in a row.

    `state` has the registers of the block and its own memory, as bytes.
    """

    def __init__(self, state: Callable[[], bytes]) -> None:
        self.state = state
        self.start()

    def start(self) -> None:
        """Start a block."""
        self.found: dict[int, bytes] = {}
        self.states: dict[int, bytes] = {}
        self.pc = 0
        self.forgive()

    def forgive(self) -> None:
        """Count from zero again: other threads or programs have had their turn."""
        self.repeats: dict[int, int] = {}
        self.in_vain = False

    def note(self, pc: int, addresses: Array, *values: Array, strong: bool) -> None:
        """Note what an instruction found at these addresses."""
        found = b"".join(part.tobytes() for part in (addresses, *values))
        if self.found.get(pc) != found:
            self.found[pc] = found
            self.repeats[pc] = 0
            self.states.pop(pc, None)
            self.in_vain = False
            return
        count = self.repeats[pc] = self.repeats.get(pc, 0) + 1
        if count < (PATIENCE if strong else WEAK_PATIENCE):
            return
        if strong:
            self.in_vain, self.pc = True, pc
            return
        before, self.states[pc] = self.states.get(pc), self.state()
        if before == self.states[pc]:
            self.in_vain, self.pc = True, pc
        self.repeats[pc] = WEAK_PATIENCE - WEAK_REPEATS


class LazyPolls(Polls):
    """Polls of several programs at once, which are rare: what an instruction finds is compared after many turns."""

    def start(self) -> None:
        super().start()
        self.turns: Counter[int] = Counter()

    def note(self, pc: int, addresses: Array, *values: Array, strong: bool) -> None:
        self.turns[pc] += 1
        if self.turns[pc] > WEAK_PATIENCE:
            super().note(pc, addresses, *values, strong=strong)
