"""The order of a group's four blocks: seeded, balanced, and a pure function."""

import hashlib

from alphabet_audit.errors import AuditError

ABBA, BAAB = "ABBA", "BAAB"


def abba_orders(groups: int, seed: int) -> tuple[str, ...]:
    """As many ABBA as BAAB, and one more of either where the number is odd, in an order that the seed determines.

    Sorted by hashes and not shuffled by `random`, so that every version of Python recomputes the same orders.
    """
    if groups < 1:
        raise AuditError(f"groups must be at least 1; got {groups}")

    def rank(what: object) -> bytes:
        return hashlib.sha256(f"{seed}/{what}".encode()).digest()

    kinds = sorted((ABBA, BAAB), key=rank)
    return tuple(kinds[position % 2] for position in sorted(range(groups), key=rank))


def is_balanced(orders: tuple[str, ...]) -> bool:
    """Only ABBA and BAAB, and as many of one as of the other, or one more."""
    counts = orders.count(ABBA), orders.count(BAAB)
    return sum(counts) == len(orders) and abs(counts[0] - counts[1]) <= 1


def seed_of(name: str) -> int:
    """A seed for everything that is named, the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
