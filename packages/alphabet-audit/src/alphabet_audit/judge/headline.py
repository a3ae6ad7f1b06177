"""The numbers that sum a ledger up: means of designs, of each phase as a whole, and of all rows."""

import statistics
from dataclasses import dataclass

from alphabet_audit.evidence.canonical import Record
from alphabet_audit.protocol.ratios import geometric_mean


@dataclass(frozen=True)
class Headline:
    """Some rows in five numbers: how many, how many of them above one, and three ways to average their ratios.

    trimmed: the geometric mean without the cell that has the largest ratio, which shows what one cell contributes
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
            f"rows; without the largest cell ({self.largest}) {self.trimmed:.2f}x"
        )


def find_headlines(rows: list[Record]) -> dict[str, Headline]:
    """The headline of each phase, over the rows that have a ratio; a phase needs at least two."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        if "ratio" in row:
            found.setdefault(row["phase"], []).append(row)
    return {phase: summarize_rows(timed) for phase, timed in found.items() if len(timed) > 1}


def find_total(rows: list[Record]) -> Headline | None:
    """The headline of both phases together, over the rows that have a ratio, of which there must be two cells."""
    timed = [row for row in rows if "ratio" in row]
    return summarize_rows(timed) if len({(row["design"], row["opponent"]) for row in timed}) > 1 else None


def summarize_rows(rows: list[Record]) -> Headline:
    """The headline of rows that all have a ratio, of at least two cells."""
    ordered = sorted(rows, key=lambda row: float(row["ratio"]))
    ratios = [float(row["ratio"]) for row in ordered]
    most = ordered[-1]["design"], ordered[-1]["opponent"]
    rest = [float(row["ratio"]) for row in ordered if (row["design"], row["opponent"]) != most]
    largest = f"{most[1]} at {most[0]}, {ratios[-1]:.1f}x"
    return Headline(
        len(rows), sum(ratio > 1.0 for ratio in ratios), geometric_mean(ratios), statistics.median(ratios),
        geometric_mean(rest), largest,
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
