"""The order in which things happen that PTX leaves open: programs of a grid, warps of a block, threads of a step.

`ascending` is the fast one: programs by number, all threads of a block in lockstep. `descending` is its opposite:
programs from the last to the first, in each block one warp after another from the last to the first, each until it has
to wait for others, and within an instruction the highest thread first. A number is a seed: programs in a random order,
and the lanes of each warp split in two at random, so that a block runs as twice as many groups as it has warps, in a
random order.
"""

import numpy as np

from alphabet_ptx.datatypes import WARP, Array


class Order:
    """One order, for one launch; equal orders are equal launches."""

    def __init__(self, order: str | int = "ascending") -> None:
        self.lockstep = order == "ascending"
        self.random = None if isinstance(order, str) else np.random.default_rng(int(order))

    def programs(self, count: int) -> list[int]:
        """The numbers of `count` programs, in the order in which they start."""
        if self.random is not None:
            return [int(number) for number in self.random.permutation(count)]
        return list(range(count) if self.lockstep else reversed(range(count)))

    def groups(self, threads: int) -> Array:
        """For each thread of a block the group with which it runs, apart from other groups."""
        warp = np.arange(threads) // WARP
        return warp if self.random is None else 2 * warp + self.random.integers(0, 2, threads)

    def choose(self, groups: Array) -> int:
        """Which of these groups runs next."""
        return int(groups.max() if self.random is None else self.random.choice(np.unique(groups)))

    def arrange(self, count: int) -> Array:
        """The order of `count` threads that act on memory in one step."""
        return np.arange(count)[::-1] if self.random is None else self.random.permutation(count)
