"""The candidates of the declared designs, as candidates.csv lists them: what a cell of the ledger must hold."""

import csv
import io
from dataclasses import dataclass
from functools import cache

from alphabet_audit.declare.declarations import PACKAGE_DATA


@dataclass(frozen=True)
class DeclaredCandidate:
    """A family's candidate beside an ALPHABET of some width: its structural choice, its own width and its size."""

    choice: tuple[int, ...]
    width: int
    parameters: int


@cache
def read_candidates() -> dict[tuple[str, int, str], DeclaredCandidate]:
    """The candidates that come with this package, by sizing, ALPHABET's width and family."""
    content = (PACKAGE_DATA / "candidates.csv").read_text(encoding="utf-8")
    return {
        (row["sizing"], int(row["alphabet_width"]), row["family"]): DeclaredCandidate(
            tuple(map(int, row["choice"].split())), int(row["width"]), int(row["parameters"])
        )
        for row in csv.DictReader(io.StringIO(content))
    }
