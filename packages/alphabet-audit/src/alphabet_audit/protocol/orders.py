"""The order of the four blocks in each group of a row: balanced, and determined by the row's name alone."""

import hashlib
from functools import lru_cache

from alphabet_audit.errors import AuditError

ABBA, BAAB = "ABBA", "BAAB"


@lru_cache(maxsize=1024)
def abba_orders(groups: int, seed: int) -> tuple[str, ...]:
    """The orders of so many groups: ABBA and BAAB equally often, or one of them once more, arranged by the seed.

    Sorted by hashes and not shuffled by `random`, so that every version of Python recomputes the same orders.
    """
    if groups < 1:
        raise AuditError(f"groups must be at least 1; got {groups}")

    def rank(what: object) -> bytes:
        return hashlib.sha256(f"{seed}/{what}".encode()).digest()

    kinds = sorted((ABBA, BAAB), key=rank)
    return tuple(kinds[position % 2] for position in sorted(range(groups), key=rank))


def is_balanced(orders: tuple[str, ...]) -> bool:
    """Whether orders are all ABBA or BAAB, as many of one as of the other, or one more."""
    counts = orders.count(ABBA), orders.count(BAAB)
    return sum(counts) == len(orders) and abs(counts[0] - counts[1]) <= 1


@lru_cache(maxsize=1024)
def seed_of(name: str) -> int:
    """The seed that belongs to a name, the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
