"""A record as a flat row, the one form in which the store and CSV files keep it."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from alphabet_study.errors import StudyError
from alphabet_study.protocol.records import DIVERGED, DONE, FAILED, FINAL, STAGES, FitKey, Job, Outcome, Record

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
REQUIRED = (*KEY, "candidate", "status", "test", "seconds")
CHOICES = {"stage": STAGES, "status": (DONE, DIVERGED, FAILED)}
# SQLite keeps integers of 64 bits, one of them for the sign.
LARGEST_INTEGER = 2**63 - 1

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


def csv_line(texts: Sequence[str]) -> str:
    """A line of a CSV file, with its end.

    Whatever holds a line end of any kind is quoted; Python's csv module leaves a lone carriage return as it is, and
    then refuses to read it.
    """
    return ",".join(_quoted(text) for text in texts) + "\n"


def texts_of(record: Record) -> list[str]:
    """The texts of a record's row in the order of COLUMNS, from which `record_of_texts` gives the same record."""
    row = row_of(record)
    return [_text(row[name]) for name in COLUMNS]


def record_of_texts(where: str, texts: Sequence[str]) -> Record:
    """The record of a row of texts; a malformed one is refused with where it stands and the column."""
    if len(texts) != len(COLUMNS):
        raise StudyError(f"{where}: {len(texts)} columns found, {len(COLUMNS)} expected; export the file again")
    values: Row = {}
    for name, text in zip(COLUMNS, texts, strict=True):
        try:
            values[name] = _value(name, text)
        except (ValueError, RecursionError) as error:
            found = text if len(text) <= 100 else text[:100] + "..."
            raise StudyError(f"{where}, column {name}: {found!r} is not understood: {error}; export again") from error
    record = record_of(values)
    for column, finding in _contradictions(record):
        raise StudyError(
            f"{where}, column {column}: {record.job.key} {finding}; export again. If the store that it comes from says "
            "the same, that fit must run again in a new store"
        )
    return record


def _contradictions(record: Record) -> list[tuple[str, str]]:
    """What the values of a row cannot say together, each with the column at fault."""
    outcome, final, done = record.outcome, record.job.key.stage == FINAL, record.outcome.status == DONE
    found = []
    if done and not final and (outcome.score is None or not math.isfinite(outcome.score)):
        found.append(("score", f"is {DONE}, but has no finite score by which selection could rank it"))
    if not final and record.job.frozen is not None:
        found.append(("frozen", "is no final, but names a frozen configuration"))
    if outcome.test and not (final and done):
        found.append(("test", f"has metrics on TEST, which only a final that is {DONE} can have"))
    if final and done and not outcome.test:
        found.append(("test", f"is a final that is {DONE}, but has no metrics on TEST"))
    return found


def _value(name: str, text: str) -> str | int | float | None:
    if text == "":
        if name in REQUIRED:
            raise ValueError("it must not be empty")
        return "" if name in ("finished", "machine", "sources") else None
    if name in INTEGERS:
        if abs(int(text)) > LARGEST_INTEGER:
            raise ValueError("it is too large for an integer of 64 bits")
        return int(text)
    if name in FLOATS:
        if name == "seconds" and not math.isfinite(float(text)):
            raise ValueError("it must be finite")
        return float(text)
    if name in CHOICES and text not in CHOICES[name]:
        raise ValueError(f"it must be one of {', '.join(CHOICES[name])}")
    if name == "test":
        metrics = json.loads(text)
        if not isinstance(metrics, dict):
            raise ValueError("it must be a JSON object of metrics")
        for metric, value in metrics.items():
            if not isinstance(value, float) or not math.isfinite(value):
                raise ValueError(f"the metric {metric} must be a finite number with a decimal point")
    return text


def _text(value: object) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


def _is_nothing(value: object) -> bool:
    return value == "" or (isinstance(value, float) and math.isnan(value))
