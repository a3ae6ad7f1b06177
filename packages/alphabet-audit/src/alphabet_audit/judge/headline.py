"""The numbers that sum a ledger up: means of designs, and of each phase as a whole."""

import statistics
from dataclasses import dataclass

from alphabet_audit.evidence.canonical import Record
from alphabet_audit.protocol.ratios import geometric_mean


@dataclass(frozen=True)
class Headline:
    """A phase in five numbers: the rows, how many are above one, and three ways to average their ratios.

    trimmed: the geometric mean without the largest ratio, which shows what one cell contributes
    """

    rows: int
    above_one: int
    mean: float
    median: float
    trimmed: float
    largest: str

    def describe(self) -> str:
        """The headline in one line."""
        return (
            f"geometric mean {self.mean:.2f}x, median {self.median:.2f}x, above one in {self.above_one} of {self.rows} "
            f"rows; without the largest ({self.largest}) {self.trimmed:.2f}x"
        )


def find_headlines(rows: list[Record]) -> dict[str, Headline]:
    """The headline of each phase, over the rows that have a ratio; a phase needs at least two."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        if "ratio" in row:
            found.setdefault(row["phase"], []).append(row)
    return {phase: summarize_phase(timed) for phase, timed in found.items() if len(timed) > 1}


def summarize_phase(rows: list[Record]) -> Headline:
    """The headline of rows that all have a ratio."""
    ordered = sorted(rows, key=lambda row: float(row["ratio"]))
    ratios = [float(row["ratio"]) for row in ordered]
    largest = f"{ordered[-1]['opponent']} at {ordered[-1]['design']}, {ratios[-1]:.1f}x"
    return Headline(
        len(rows), sum(ratio > 1.0 for ratio in ratios), geometric_mean(ratios), statistics.median(ratios),
        geometric_mean(ratios[:-1]), largest,
    )  # fmt: skip


def find_means(rows: list[Record]) -> dict[str, dict[str, float]]:
    """The geometric mean of every design and phase, over the rows that have a ratio."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if "ratio" in row:
            found.setdefault(row["design"], {}).setdefault(row["phase"], []).append(row["ratio"])
    return {
        design: {phase: geometric_mean(ratios) for phase, ratios in phases.items()} for design, phases in found.items()
    }
