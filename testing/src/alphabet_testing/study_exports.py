"""Exports of a small campaign, and changes to them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from alphabet_study.campaign.store import Store
from alphabet_study.campaign.transfer import export_csv

from alphabet_testing.study_campaigns import (
    HashedFit,
    InlineEngine,
    run_small,
    small_plan,
)

PLAN = small_plan("A", "B")


def make_store(folder: Path) -> Path:
    """A store with every fit of the plan."""
    path = folder / "store.sqlite"
    run_small(path, PLAN, InlineEngine(HashedFit()))
    return path


def make_export(folder: Path, store: Path) -> Path:
    """The store's fits as a CSV file with its description beside it."""
    with Store.read(store) as opened:
        assert export_csv(opened, folder / "out" / "fits.csv") == PLAN.size
    return folder / "out" / "fits.csv"


def edit(path: Path, change: Callable[[list[list[str]]], object]) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def edit_description(path: Path, change: Callable[[dict], object]) -> None:
    description = json.loads(path.with_suffix(".json").read_text())
    change(description)
    path.with_suffix(".json").write_text(json.dumps(description))


def set_in(place: tuple[str | int, ...], value: object, description: dict) -> None:
    for name in place[:-1]:
        description = description[name]
    description[place[-1]] = value
