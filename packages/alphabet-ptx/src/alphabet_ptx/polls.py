"""Loops that wait for a value: the same read again and again, with the same result."""

from collections import Counter

from alphabet_ptx.datatypes import Array

# So many equal results in a row are taken for waiting. A wrong guess does no harm: another program runs for a while.
# Weak reads are repeated for other reasons, too.
PATIENCE = 32
WEAK_PATIENCE = 512


class Polls:
    """What each reading instruction of a block found last, and how often in a row."""

    def __init__(self) -> None:
        self.found: dict[int, bytes] = {}
        self.repeats: dict[int, int] = {}
        self.in_vain = False
        self.pc = 0

    def start(self) -> None:
        """Start a block."""
        self.found = {}
        self.forgive()

    def forgive(self) -> None:
        """Count from zero again: other threads or programs have had their turn."""
        self.repeats = {}
        self.in_vain = False

    def note(self, pc: int, addresses: Array, *values: Array, strong: bool) -> None:
        """Note what an instruction found at these addresses."""
        found = b"".join(part.tobytes() for part in (addresses, *values))
        if self.found.get(pc) != found:
            self.found[pc] = found
            self.repeats[pc] = 0
            self.in_vain = False
            return
        count = self.repeats[pc] = self.repeats.get(pc, 0) + 1
        if count >= (PATIENCE if strong else WEAK_PATIENCE):
            self.in_vain, self.pc = True, pc


class LazyPolls(Polls):
    """Polls of several programs at once, which are rare: what an instruction finds is compared after many turns."""

    def start(self) -> None:
        super().start()
        self.turns: Counter[int] = Counter()

    def note(self, pc: int, addresses: Array, *values: Array, strong: bool) -> None:
        self.turns[pc] += 1
        if self.turns[pc] > WEAK_PATIENCE:
            super().note(pc, addresses, *values, strong=strong)
