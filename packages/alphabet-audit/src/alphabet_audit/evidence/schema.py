"""The form of records and of the manifest: the fields that each has, what each field holds, and no others."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from alphabet_audit.evidence.canonical import Record
from alphabet_audit.protocol.repeats import PROTOCOL

Check = Callable[[Any], bool]
HASH = re.compile(r"[0-9a-f]{64}")


def is_text(value: object) -> bool:
    """Whether a value is a string."""
    return isinstance(value, str)


def is_word(value: object) -> bool:
    """Whether a value is a string that is not empty."""
    return isinstance(value, str) and bool(value)


def is_hash(value: object) -> bool:
    """Whether a value is a sha256 in hexadecimal."""
    return isinstance(value, str) and HASH.fullmatch(value) is not None


def is_count(value: object) -> bool:
    """Whether a value is an integer from zero on; True is not."""
    return type(value) is int and value >= 0


def is_number(value: Any) -> bool:
    """Whether a value is a number, finite and not negative."""
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def is_time(value: object) -> bool:
    """Whether a value is a time in seconds: finite and positive."""
    return is_number(value) and value != 0


def is_measure(value: object) -> bool:
    """Whether a value is a number, or the word for one that is not finite, which is well formed and fails its gate."""
    return is_number(value) or value in ("inf", "nan")


def is_sample(value: Any) -> bool:
    """Whether a value is a number of repeats and the seconds of all of them."""
    return isinstance(value, list) and len(value) == 2 and is_count(value[0]) and value[0] > 0 and is_time(value[1])


def is_mapping(value: object) -> bool:
    """Whether a value is a mapping."""
    return isinstance(value, dict)


def list_of(check: Check, size: int | None = None, least: int = 1) -> Check:
    """A check for a list of that size, or of at least so many entries, which all pass a check."""
    return lambda value: (
        isinstance(value, list) and (len(value) == size if size else len(value) >= least) and all(map(check, value))
    )


def arms_of(check: Check) -> Check:
    """A check for a mapping with an entry for each arm, both of which pass a check."""
    return lambda value: isinstance(value, dict) and set(value) == {"A", "B"} and all(map(check, value.values()))


def fields_of(**checks: Check) -> Check:
    """A check for a mapping with these fields, each of which passes its check, and no others."""
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == checks.keys()
        and all(check(value[name]) for name, check in checks.items())
    )


def find_misfits(record: Record, checks: Mapping[str, Check]) -> Iterator[str]:
    """What is wrong with a record's fields, in words: unknown ones, missing ones, and ones that fail their checks."""
    if not record.keys() <= checks.keys():
        yield from (f"has an unknown field {name}" for name in sorted(set(record) - set(checks)))
    for name, check in checks.items():
        if name not in record:
            yield f"has no {name}"
        elif not check(record[name]):
            yield f"has a bad {name}: {str(record[name])[:80]}"


is_reading = fields_of(quantity=is_word, rule=is_word, error=is_measure, plain=is_measure, limit=is_measure)
is_trial = fields_of(
    name=is_word, readings=list_of(is_reading, least=0), seconds=list_of(is_time, least=0), reason=is_text
)
is_warmups = arms_of(list_of(is_time, PROTOCOL.warmups))
is_repeats = arms_of(lambda value: is_count(value) and value > 0)

CHAINED: dict[str, Check] = {"kind": is_word, "index": is_count, "previous": is_hash}
KEYED: dict[str, Check] = {**CHAINED, "key": is_word}
RECORDS: dict[str, dict[str, Check]] = {
    "begin": {**CHAINED, "manifest": is_hash},
    "session": {**CHAINED, "state": is_mapping, "clock": is_word},
    "parity": {
        **KEYED, "runtime": is_word, "verdict": is_word, "detail": is_text, "case": is_mapping,
        "readings": list_of(is_reading, least=0),
    },
    "choice": {**KEYED, "candidates": list_of(is_trial), "chosen": lambda value: value is None or is_word(value)},
    "gate": {**KEYED, "readings": list_of(is_reading), "verdict": is_word},
    "start": {
        **KEYED, "execution": is_word, "seed": is_count, "calibration": arms_of(list_of(is_sample)),
        "repeats": is_repeats, "warmups": is_warmups,
    },
    "resume": {**KEYED, "warmups": is_warmups},
    "group": {**KEYED, "number": is_count, "order": is_word, "seconds": list_of(is_time, 4), "repeats": is_repeats},
    "row": {
        **KEYED, "design": is_word, "opponent": is_word, "phase": is_word, "status": is_word, "ratio": is_time,
        "ratios": list_of(is_time, PROTOCOL.groups),
        "interval": list_of(is_time, 2), "seconds": arms_of(is_time),
    },
}  # fmt: skip
FAILED_ROW: dict[str, Check] = {
    **{name: RECORDS["row"][name] for name in (*KEYED, "design", "opponent", "phase", "status")},
    "error": is_text,
}
MANIFEST: dict[str, Check] = {
    "version": is_count,
    "kind": is_word,
    "created": is_word,
    "device": is_word,
    "environment": is_mapping,
    "plan": is_mapping,
    "cells": is_mapping,
    "declarations": is_mapping,
    "compiled": lambda value: isinstance(value, bool),
    "head": is_hash,
    "records": is_count,
    "finished": lambda value: isinstance(value, bool),
}


def check_forms(records: list[Record]) -> Iterator[str]:
    """What is wrong with the form of any record, in words."""
    for record in records:
        kind = record.get("kind")
        if not isinstance(kind, str) or kind not in RECORDS:
            yield f"record {record['index']} is of an unknown kind: {kind!r}"
            continue
        failed = kind == "row" and "error" in record
        for misfit in find_misfits(record, FAILED_ROW if failed else RECORDS[kind]):
            yield f"record {record['index']} ({kind}) {misfit}"
