"""What a store holds, for people: a table of its cells, and the fits that failed."""

from collections import Counter

from rich.table import Table

from alphabet_study.campaign.store import Store
from alphabet_study.protocol.records import DIVERGED, FAILED, STAGES, Cell

# How many failed fits are named.
NAMED = 20


def status_table(store: Store) -> Table:
    """A table with a line per cell: fits by stage, failures, the frozen configuration, seconds of computing."""
    settings, openings = store.settings, store.openings()
    expected = dict(
        zip(
            STAGES,
            (
                len(settings.recipes) * len(settings.shapes),
                settings.kept * len(settings.confirm_seeds),
                len(settings.final_seeds),
            ),
            strict=True,
        )
    )
    cells: dict[Cell, Counter[str]] = {}
    for record in store.records():
        counts = cells.setdefault(record.job.key.cell, Counter())
        counts[record.job.key.stage if record.outcome.status != FAILED else FAILED] += 1
        counts[DIVERGED] += record.outcome.status == DIVERGED
        counts["milliseconds"] += round(1000 * record.seconds)
    done = sum(counts[stage] for counts in cells.values() for stage in STAGES)
    title = f"{store.path}: {settings.name} settings, {len(cells)} cells begun, {done:,} fits done"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("task", "family"):
        table.add_column(name)
    for name in (*STAGES, DIVERGED, FAILED, "seconds"):
        table.add_column(name, justify="right")
    table.add_column("frozen")
    for cell, counts in cells.items():
        opening = openings.get(cell)
        table.add_row(
            cell.task, cell.family, *(f"{counts[stage]}/{expected[stage]}" for stage in STAGES),
            str(counts[DIVERGED] or ""), str(counts[FAILED] or ""), f"{counts['milliseconds'] / 1000:.1f}",
            opening.candidate if opening else "",
        )  # fmt: skip
    return table


def failure_lines(store: Store) -> list[str]:
    """A line per failed fit with its reason, the first ones, and how many there are beyond."""
    failed = [record for record in store.records() if record.outcome.status == FAILED]
    lines = [f"failed: {record.job.key}: {record.outcome.reason}" for record in failed[:NAMED]]
    return lines + ([f"and {len(failed) - NAMED:,} more failed"] if len(failed) > NAMED else [])
