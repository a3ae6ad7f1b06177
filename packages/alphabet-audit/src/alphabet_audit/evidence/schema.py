"""The form of every field of manifest and records, in both versions; `audit/evidence.schema.json` is made of it."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from alphabet_audit.declare.cases import LEDGER_RUNTIMES
from alphabet_audit.declare.designs import PHASES
from alphabet_audit.declare.verdicts import CRASHED, FAIL, GATE_FAILED, NOT_RUN, PASS, TIMED
from alphabet_audit.errors import printable
from alphabet_audit.evidence import forms
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.environment_form import ENVIRONMENT, STATE, TIME
from alphabet_audit.evidence.forms import Form, count, either, fields, find_misfits, list_of, map_of, number, one_of
from alphabet_audit.protocol.orders import ABBA, BAAB
from alphabet_audit.protocol.repeats import PROBES, PROTOCOL

VERSIONS = (1, 2)
HASH = forms.text("[0-9a-f]{64}")
WORD = forms.text(least=1)
# Clocks count nanoseconds, and a block lasts no longer than a day: what is beyond is no measurement of this protocol.
SECONDS = number(least=1e-9, most=86400.0)
MEASURE = either(number(), one_of("inf", "nan"))  # what is not finite is well formed, and fails its gate
READING = fields(quantity=WORD, rule=WORD, error=MEASURE, plain=MEASURE, limit=MEASURE)
READINGS = list_of(READING, 1, 400)
TRIAL_SAMPLES = 7
REPEATS = count(1, 10**9)
VERDICT = one_of(PASS, FAIL)


def arms(form: Form) -> Form:
    """A mapping with an entry for each arm."""
    return fields(A=form, B=form)


CASE = fields(
    gate=WORD,
    **{name: count(1, 10**6) for name in ("batch", "length", "width", "modes", "channels", "outputs")},
    seed=count(),
)
CELL = fields(
    family=WORD, choice=list_of(count(1, 10**4), 1, 2), width=count(1, 1 << 16), parameters=count(1, 10**9),
    gap=number(-1.0, 1e6),
)  # fmt: skip
PLAN = fields(
    scope=WORD,
    designs=list_of(WORD, 1, 100),
    families=list_of(WORD, 1, 100),
    protocol=fields(target_seconds=SECONDS, warmups=count(1, 1000), groups=count(1, 1000)),
    seed=count(),
    gates=list_of(WORD, 0, 1000),
)
KEY = f"{forms.PRINTABLE}{{1,100}}"


@cache
def record_forms(version: int) -> dict[str, tuple[Form, ...]]:
    """The forms of each kind of record in a version: one, or of a row two, timed and not timed."""
    message = forms.lines() if version == 1 else forms.text()
    chained = {"index": count(), "previous": HASH}
    keyed = {**chained, "key": WORD}
    trial = fields(
        name=WORD,
        readings=list_of(READING, 0, 10),
        seconds=either(list_of(SECONDS, 0), list_of(SECONDS, TRIAL_SAMPLES)),
        reason=message,
    )
    warmups = arms(list_of(SECONDS, PROTOCOL.warmups))
    sample = forms.pair_of(REPEATS, SECONDS)
    row = {"design": WORD, "opponent": WORD, "phase": one_of(*PHASES)}
    session: dict[str, Form] = {"clock": WORD, "state": STATE}
    found: dict[str, tuple[dict[str, Form], ...]] = {
        "begin": ({**chained, "manifest": HASH},),
        "session": ({**chained, **session, **({"begun": TIME} if version > 1 else {})},),
        "parity": (
            {
                **keyed, "runtime": WORD, "verdict": one_of(PASS, FAIL, NOT_RUN), "detail": message, "case": CASE,
                "readings": list_of(READING, 0, 400),
            },
        ),
        "choice": ({**keyed, "candidates": list_of(trial, 1, 50), "chosen": either(WORD, forms.NULL)},),
        "gate": ({**keyed, "readings": READINGS, "verdict": VERDICT},),
        "start": (
            {
                **keyed, "execution": WORD, "seed": count(), "calibration": arms(list_of(sample, 1, 2 * PROBES - 1)),
                "repeats": arms(REPEATS), "warmups": warmups,
            },
        ),
        "resume": ({**keyed, "warmups": warmups},),
        "group": (
            {
                **keyed, "number": count(0, PROTOCOL.groups - 1), "order": one_of(ABBA, BAAB),
                "seconds": list_of(SECONDS, 4), "repeats": arms(REPEATS),
            },
        ),
        "row": (
            {
                **keyed, **row, "status": one_of(TIMED), "ratio": number(least=1e-12),
                "ratios": list_of(number(least=1e-12), PROTOCOL.groups),
                "interval": list_of(number(least=1e-12), 2), "seconds": arms(SECONDS),
            },
            {**keyed, **row, "status": one_of(GATE_FAILED, CRASHED), "error": message},
        ),
    }  # fmt: skip
    if version > 1:
        found["after"] = ({**keyed, "readings": READINGS, "verdict": VERDICT},)
    return {
        kind: tuple(forms.mapping({"kind": one_of(kind), **each}) for each in variants)
        for kind, variants in found.items()
    }


@cache
def manifest_form(version: int, kind: str) -> Form:
    """The form of a manifest of a version, of a ledger or of a parity run, which has neither plan nor cells."""
    empty = forms.mapping({})
    ledger = kind == "ledger"
    declared = (
        {"designs.toml": HASH, "tolerances.toml": HASH} if version == 1 else {"designs": HASH, "tolerances": HASH}
    )
    return fields(
        version=one_of(version),
        kind=one_of(kind),
        created=TIME,
        device=one_of(*LEDGER_RUNTIMES),
        environment=ENVIRONMENT[version],
        plan=PLAN if ledger else empty,
        cells=map_of(KEY, map_of(KEY, CELL, 100, least=1), 100, least=1) if ledger else empty,
        declarations=forms.mapping(declared),
        compiled=forms.FLAG,
        head=HASH,
        records=count(),
        finished=forms.FLAG,
    )


def check_manifest_form(manifest: Record) -> Iterator[str]:
    """What is wrong with the form of a manifest whose version can be read, in words."""
    kind = manifest.get("kind")
    if kind not in ("ledger", "parity"):
        yield f"manifest has kind {printable(kind)}; a run is a ledger or parity"
        return
    yield from (f"manifest {misfit}" for misfit in find_misfits(manifest, manifest_form(manifest["version"], kind)))


def check_record_forms(records: list[Record], version: int) -> Iterator[str]:
    """What is wrong with the form of any record, in words."""
    known = record_forms(version)
    for record in records:
        kind = record.get("kind")
        if not isinstance(kind, str) or kind not in known:
            yield f"record {record['index']} is of an unknown kind: {printable(kind)}"
        elif not any(form.check(record) for form in known[kind]):
            form = known[kind][-1 if "error" in record else 0]
            yield from (f"record {record['index']} ({kind}) {misfit}" for misfit in find_misfits(record, form))


def make_json_schema() -> dict[str, Any]:
    """The JSON Schema of manifests and records, by version."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of alphabet-audit: manifest.json, and each line of evidence.jsonl",
        "$defs": {
            f"version-{version}": {
                "manifest": {kind: manifest_form(version, kind).schema for kind in ("ledger", "parity")},
                "record": {kind: [form.schema for form in found] for kind, found in record_forms(version).items()},
            }
            for version in VERSIONS
        },
    }
