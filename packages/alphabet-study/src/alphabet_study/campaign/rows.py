"""A record as a flat row, the one form in which the store and CSV files keep it."""

import json
import math
from collections.abc import Mapping
from typing import Any

from alphabet_study.protocol.records import FitKey, Job, Outcome, Record

KEY = ("task", "family", "stage", "slot", "seed")
# What the job and the code alone decide: equal on every engine and after any interruption.
DETERMINISTIC = (
    *KEY, "candidate", "train_epochs", "frozen", "status", "reason", "score", "validation_loss", "best_epoch", "epochs",
    "parameters", "path", "test",
)  # fmt: skip
# Where and when it ran, which no comparison looks at.
CIRCUMSTANCES = ("seconds", "finished", "machine", "sources")
COLUMNS = (*DETERMINISTIC, *CIRCUMSTANCES)
INTEGERS = ("slot", "seed", "train_epochs", "best_epoch", "epochs", "parameters")
FLOATS = ("score", "validation_loss", "seconds")

Row = dict[str, Any]


def row_of(record: Record) -> Row:
    """The row of a record, by the names of COLUMNS; the metrics on TEST are canonical JSON.

    Empty texts and numbers that are NaN become None: neither the store nor a CSV file can tell them apart.
    """
    key, job, outcome = record.job.key, record.job, record.outcome
    row = {name: getattr(key, name) for name in KEY}
    row |= {"candidate": job.candidate, "train_epochs": job.epochs, "frozen": job.frozen}
    row |= {name: getattr(outcome, name) for name in DETERMINISTIC[8:-1]}
    row["test"] = json.dumps({name: float(value) for name, value in outcome.test.items()}, sort_keys=True)
    row |= {name: getattr(record, name) for name in CIRCUMSTANCES}
    row |= {name: int(row[name]) for name in INTEGERS if row[name] is not None}
    row |= {name: float(row[name]) for name in FLOATS if row[name] is not None}
    return row | {name: None for name in (*FLOATS, "reason", "path") if _is_nothing(row[name])}


def record_of(row: Mapping[str, Any]) -> Record:
    """The record of a row."""
    key = FitKey(*(row[name] for name in KEY))
    outcome = Outcome(**{name: row[name] for name in DETERMINISTIC[8:-1]}, test=json.loads(row["test"]))
    return Record(
        Job(key, row["candidate"], row["train_epochs"], row["frozen"]),
        outcome,
        **{name: row[name] for name in CIRCUMSTANCES},
    )


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The deterministic fields in which two rows of one key differ, each with both values."""
    return [f"{name} {first[name]!r} against {second[name]!r}" for name in DETERMINISTIC if first[name] != second[name]]


def _is_nothing(value: object) -> bool:
    return value == "" or (isinstance(value, float) and math.isnan(value))
