"""From fits to results: the mean over final seeds of every cell, and which cells are not complete."""

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DONE, FINAL, Cell
from alphabet_study.protocol.settings import PAPER, Settings
from alphabet_study.registry.task import Task
from alphabet_study.statistics.ranks import list_keys, require_columns

# The columns of an exported campaign that results are made of.
NEEDED = (
    "task", "family", "stage", "slot", "seed", "candidate", "frozen", "status", "reason", "best_epoch", "epochs",
    "parameters", "path", "test",
)  # fmt: skip
SUMMARY = (
    "task", "title", "suite", "family", "metric", "direction", "value", "sd", "n", "candidate", "epochs", "parameters",
    "path", "incomplete",
)  # fmt: skip
# Columns that are text even where all of it looks like numbers, as a hash may.
_TEXT = ("task", "family", "stage", "candidate", "frozen", "status", "reason", "path", "test", "machine", "sources")


def read_fits(path: Path) -> pd.DataFrame:
    """The fits of an exported campaign, one row per fit; what is empty in the file is missing in the frame."""
    try:
        # Only an empty field is missing: a reason may well be the word "nan".
        fits = pd.read_csv(path, dtype=dict.fromkeys(_TEXT, str), keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read as fits: {error}; give a file that `export` wrote") from error
    require_columns(fits, NEEDED, str(path))
    return fits


def summarize_finals(
    fits: pd.DataFrame,
    tasks: Mapping[str, Task],
    *,
    settings: Settings = PAPER,
    partial: bool = False,
    planned: Collection[Cell] = (),
    faults: Mapping[Cell, str] | None = None,
) -> pd.DataFrame:
    """The result of every cell that is planned or has any fit: its task's mean metric over the final seeds, and more.

    Columns: task, title, suite, family, metric and direction; value and sd, the mean and sample standard deviation on
    TEST; n, the number of seeds behind them; candidate, the frozen one; epochs, the median number behind the evaluated
    parameters; parameters; path, how training steps were computed; incomplete, empty or what the cell lacks.

    Every final seed of the settings must have a finite value under one frozen configuration. Cells without are refused
    with their keys; with `partial` they are rows without a value, n being the number of finals that are there. So are
    the cells with faults: reasons, found elsewhere, not to trust their finals.
    """
    require_columns(fits, NEEDED, "fits")
    unknown = sorted({*map(str, fits["task"]), *(cell.task for cell in planned)} - set(tasks))
    if unknown:
        raise StudyError(f"fits of tasks that are not in the registry: {list_keys(unknown)}")
    key = ["task", "family", "stage", "slot", "seed"]
    doubled = fits[fits.duplicated(key)]
    if len(doubled) > 0:
        raise StudyError(
            f"every fit must have one record; there are several of {list_keys(_join(doubled, key))}: "
            "import exports into one campaign, which finds out whether they agree"
        )
    finals = fits[fits["stage"] == FINAL]
    foreign = finals[~finals["seed"].isin(settings.final_seeds)]
    if len(foreign) > 0:
        raise StudyError(
            f"the final seeds of the {settings.name} settings are {', '.join(map(str, settings.final_seeds))}; "
            f"there are finals of others: {list_keys(_join(foreign, key))}"
        )
    begun = [Cell(*pair) for pair in fits[["task", "family"]].drop_duplicates().itertuples(index=False)]
    groups = dict(iter(finals.groupby(["task", "family"])))
    # What is known against a cell before its finals are looked at.
    known = dict.fromkeys(begun, "") | dict.fromkeys(sorted(set(planned) - set(begun)), "not begun")
    known |= {cell: fault for cell, fault in (faults or {}).items() if cell in known}
    rows = [
        _summarize_cell(
            tasks[cell.task], cell.family, groups.get((cell.task, cell.family), finals.iloc[:0]), settings, fault
        )
        for cell, fault in known.items()
    ]
    summary = pd.DataFrame(rows, columns=list(SUMMARY))
    lacking = summary[summary["incomplete"] != ""]
    if len(lacking) > 0 and not partial:
        what = [f"{row.task}/{row.family} ({row.incomplete})" for row in lacking.itertuples()]
        raise StudyError(f"{len(what)} of {len(summary)} cells are not complete: {list_keys(what)}; run them first")
    return summary


def _summarize_cell(task: Task, family: str, finals: pd.DataFrame, settings: Settings, fault: str) -> dict[str, Any]:
    """One row of the summary, from the finals of a cell; a fault that is known already makes it incomplete."""
    where = f"{task.name}/{family}"
    done = finals[finals["status"] == DONE]
    for column in ("candidate", "frozen"):
        if fault == "" and finals[column].nunique() > 1:
            raise StudyError(f"{where}: finals of several frozen configurations: {sorted(set(finals[column]))}")
    values = [_metric(where, task, test, seed) for test, seed in zip(done["test"], done["seed"], strict=True)]
    lacking = fault or _describe_lacking(finals, settings)
    complete = lacking == ""
    # Rows straight from a store are Python objects, None included; what is numeric is made so first.
    best, ran, parameters = (pd.to_numeric(done[name]) for name in ("best_epoch", "epochs", "parameters"))
    evaluated = best.where(best.notna(), ran)
    return {
        "task": task.name,
        "title": task.title,
        "suite": task.suite,
        "family": family,
        "metric": task.metric,
        "direction": task.direction,
        "value": math.fsum(values) / len(values) if complete else math.nan,
        "sd": float(pd.Series(values).std(ddof=1)) if complete else math.nan,
        "n": len(values),
        "candidate": finals["candidate"].iloc[0] if len(finals) > 0 else "",
        "epochs": float(evaluated.median()) if len(done) > 0 else math.nan,
        "parameters": float(parameters.median()) if len(done) > 0 else math.nan,
        "path": ", ".join(sorted({str(path) for path in done["path"].dropna()})),
        "incomplete": lacking,
    }


def _describe_lacking(finals: pd.DataFrame, settings: Settings) -> str:
    """What a cell's finals lack, seed by seed; empty if they are complete."""
    rows = {int(row.seed): row for row in finals.itertuples()}
    if not rows:
        return "no final yet"
    lacking = []
    for seed in settings.final_seeds:
        row = rows.get(seed)
        if row is None:
            lacking.append(f"seed {seed} missing")
        elif row.status != DONE:
            reason = "" if pd.isna(row.reason) else f": {row.reason}"
            lacking.append(f"seed {seed} {row.status}{reason}")
    return "; ".join(lacking)


def _metric(where: str, task: Task, test: Any, seed: Any) -> float:
    """The task's metric out of the JSON object that a final's `test` is."""
    try:
        metrics = json.loads(test)
        value = float(metrics[task.metric])
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{where}, seed {seed}: test must be a JSON object with {task.metric}; got {test!r}"
        ) from error
    if not math.isfinite(value):
        raise StudyError(f"{where}, seed {seed}: {task.metric} must be finite; got {value}")
    return value


def _join(rows: pd.DataFrame, key: list[str]) -> list[str]:
    return ["/".join(str(part) for part in each) for each in rows[key].itertuples(index=False)]
