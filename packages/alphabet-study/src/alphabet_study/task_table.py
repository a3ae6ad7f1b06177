"""The table of `alphabet-study tasks`: every task with its geometry, and whether its files are there."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from alphabet_study.data_root import ABSENT, DIFFERS, UNKNOWN, VERIFIED, Presence, can_fetch, presence
from alphabet_study.registry.task import Task

OBJECTIVE_NAMES = {"classification": "classify", "multilabel": "multilabel", "forecasting": "forecast"}
METRIC_NAMES = {
    "balanced_accuracy": "bal. acc.",
    "accuracy": "acc.",
    "macro_f1": "macro F1",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "mse": "MSE",
}
UNCOUNTED = "?"
_STYLES = {VERIFIED: "green", UNKNOWN: "yellow", DIFFERS: "bold red", ABSENT: "dim"}
_LEGEND = (
    "metric: the reported one, in brackets the one that selects where it is another. T time, C channels, K outputs; "
    f"{UNCOUNTED} where nobody has counted."
)
_FETCH = "absent, fetch: `alphabet-study fetch NAME` downloads it into the data root."


def task_table(tasks: Iterable[Task], root: Path | None) -> Table:
    """The tasks as a table: what each predicts, its sizes, and whether its files are there.

    What does not fit into a row, such as where to get files that cannot be fetched, stands in the notes below.
    """
    rows = [(task, presence(task, root)) for task in tasks]
    table = Table(
        title=f"data root {root}" if root is not None else "no data root: the sets that aeon bundles",
        caption=_notes(rows),
        title_justify="left",
        caption_justify="left",
        caption_style="",
        box=None,
        pad_edge=False,
    )
    for name in ("task", "suite", "objective", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("train/test", "TxC", "K"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("files")
    for task, found in rows:
        table.add_row(
            task.name,
            task.suite,
            OBJECTIVE_NAMES[task.objective],
            metric_text(task),
            f"{_count(task.train_size)}/{_count(task.test_size)}",
            f"{_count(task.length)}x{_count(task.channels)}",
            _count(task.outputs),
            Text(_status(task, found), style=_STYLES[found.status]),
        )
    return table


def metric_text(task: Task) -> str:
    """The reported metric, with the one that selects in brackets where it is another."""
    chosen = "" if task.selection_metric == task.metric else f" ({METRIC_NAMES[task.selection_metric]})"
    return METRIC_NAMES[task.metric] + chosen


def _status(task: Task, found: Presence) -> str:
    if _noted(task, found):
        return f"{found.status}, note"
    return f"{found.status}, fetch" if found.status == ABSENT else found.status


def _noted(task: Task, found: Presence) -> bool:
    """Whether a note below the table says more: all that needs a hand, and all that nothing here can read."""
    return found.status == DIFFERS or task.no_reader is not None or (found.status == ABSENT and not can_fetch(task))


def _notes(rows: Sequence[tuple[Task, Presence]]) -> Text:
    """The legend and one paragraph for each row that has a note."""
    notes = Text(_LEGEND)
    noted = [(task, found) for task, found in rows if _noted(task, found)]
    if any(found.status == ABSENT and not _noted(task, found) for task, found in rows):
        notes.append(f"\n{_FETCH}")
    for task, found in noted:
        notes.append(f"\n{task.name}", style="bold")
        notes.append(f" {found.status}: {found.detail}")
        notes.append("" if task.no_reader is None else f"; no reader: {task.no_reader}")
    return notes


def _count(number: int | None) -> str:
    return UNCOUNTED if number is None else str(number)
