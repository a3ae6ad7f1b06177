"""Stores and records of one made-up cell."""

from pathlib import Path

from alphabet_study.campaign.store import Store
from alphabet_study.protocol.records import (
    DONE,
    SCREEN,
    Cell,
    FitKey,
    Job,
    Outcome,
    Record,
)
from alphabet_study.protocol.selection import Frozen
from alphabet_study.protocol.settings import SMALL

CELL = Cell("Made up", "gru")
FROZEN = Frozen(CELL, "gru/032/1x16/B", 12, 0.75, SMALL.digest())


def make_record(
    *,
    stage: str = SCREEN,
    slot: int = 0,
    seed: int = 7,
    status: str = DONE,
    frozen: Frozen | None = None,
    **outcome: object,
) -> Record:
    key = FitKey(CELL.task, CELL.family, stage, slot, seed)
    job = Job(key, FROZEN.candidate, frozen.epochs if frozen else None, frozen.digest() if frozen else None)
    fields = {"score": 0.5, "validation_loss": 0.25, "best_epoch": 3, "epochs": 11, "parameters": 99, "path": "torch"}
    given = Outcome(status, **{**fields, **outcome})  # type: ignore[arg-type]
    return Record(job, given, 1.5, "2026-01-01T00:00:00+00:00", "a processor", "0" * 16)


def create(folder: Path) -> Store:
    return Store.create_or_resume(folder / "store.sqlite", SMALL, {"versions": {"torch": "2"}, "sources": "abc"})
