"""`alphabet-audit compare RUN RUN`: what changed from one run of the ledger to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.show.report import flatten
from alphabet_audit.show.results import Results, read_results


@dataclass(frozen=True)
class Change:
    """What changed in one row from a first run to a second.

    before, after: its ratios, None where it was not timed; clear: whether their intervals do not overlap;
    seconds: ALPHABET's times per call in both runs
    """

    design: str
    family: str
    phase: str
    before: float | None
    after: float | None
    clear: bool
    seconds: tuple[float, float] | None

    @property
    def factor(self) -> float | None:
        """The second ratio divided by the first, or None if either is missing."""
        return self.after / self.before if self.before is not None and self.after is not None else None


@dataclass(frozen=True)
class Comparison:
    """All rows that either run has, and remarks on what else differs."""

    changes: list[Change]
    remarks: list[str]
    titles: dict[str, str]


def compare_runs(first: Path, second: Path, declarations: Declarations) -> Comparison:
    """The comparison of two runs, in the order of the first run and then of what only the second has."""
    before, after = (read_results(folder, declarations) for folder in (first, second))
    keys = [key for key in dict.fromkeys([*before.rows, *after.rows]) if key[1] != ALPHABET]
    changes = [compare_rows(key, before.rows.get(key), after.rows.get(key)) for key in keys]
    titles = {**declarations.designs.families}
    return Comparison(changes, [*remark_statuses(before, after), *remark_environment(before, after)], titles)


def compare_rows(key: tuple[str, str, str], before: Record | None, after: Record | None) -> Change:
    """The change of one row; noise does not explain it where the intervals do not overlap."""
    first, second = (row.get("ratio") if row else None for row in (before, after))
    clear, seconds = False, None
    if before and after and first is not None and second is not None:
        clear = before["interval"][1] < after["interval"][0] or after["interval"][1] < before["interval"][0]
        seconds = before["seconds"]["A"], after["seconds"]["A"]
    return Change(*key, first, second, clear, seconds)


def remark_statuses(before: Results, after: Results) -> list[str]:
    """Remarks on the evaluator's verdicts, and on whether the runs can be compared at all."""
    remarks = [
        f"{name}: status={run.evaluation.status}, {run.device}, begun {run.manifest['created']}"
        for name, run in (("first", before), ("second", after))
    ]
    if before.device != after.device:
        remarks.append(
            f"the runs were measured on different devices, {before.device} and {after.device}: "
            "their times cannot be compared"
        )
    return remarks


def remark_environment(before: Results, after: Results) -> list[str]:
    """Remarks on every fact of the environment that changed, and on how many sources did."""
    old, new = (dict(flatten(run.manifest["environment"], skip=("imports",))) for run in (before, after))
    remarks = [
        f"{name}: {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    sources: list[dict[str, Any]] = [run.manifest["environment"].get("imports", {}) for run in (before, after)]
    changed = sorted(name for name in {*sources[0], *sources[1]} if sources[0].get(name) != sources[1].get(name))
    if changed:
        remarks.append(f"{len(changed)} imported files differ: {', '.join(changed[:8])}{' ...' if changed[8:] else ''}")
    return remarks


def comparison_table(comparison: Comparison) -> Table:
    """A table with a line per row, in which changes that noise does not explain are marked."""
    table = Table(box=None, pad_edge=False, title="Ratio of the family's time to ALPHABET's", title_justify="left")
    for name in ("design", "family", "phase", "first", "second", "factor", "ALPHABET ms", ""):
        table.add_column(name, justify="left" if name in ("design", "family", "phase", "") else "right", no_wrap=True)
    for change in comparison.changes:
        ratios = ("none" if ratio is None else f"{ratio:.2f}" for ratio in (change.before, change.after))
        factor = "" if change.factor is None else f"{change.factor:.3f}"
        times = "" if change.seconds is None else " -> ".join(f"{1e3 * each:.2f}" for each in change.seconds)
        family = comparison.titles.get(change.family, change.family)
        mark = "[bold]changed[/]" if change.clear else ""
        table.add_row(change.design, family, change.phase, *ratios, factor, times, mark)
    return table
