"""`alphabet-audit evaluate RUN`: reads evidence only, recomputes everything, and passes nothing that it cannot see.

Neither the code that was measured nor a device is needed: evidence and the declarations are enough.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from alphabet_audit.declare.cases import LEDGER_RUNTIMES, expected_cases
from alphabet_audit.declare.declarations import FILES, Declarations
from alphabet_audit.declare.designs import ALL, ALPHABET
from alphabet_audit.declare.quantities import GATE_QUANTITIES
from alphabet_audit.declare.verdicts import FAIL, NOT_RUN, PARTIAL, PASS
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import GENESIS, Record, encode, hash_of
from alphabet_audit.evidence.chain import RECORDS, identity_of, read_manifest, read_records
from alphabet_audit.evidence.schema import MANIFEST, check_forms, find_misfits, is_hash
from alphabet_audit.judge.checks import LEDGER_CHECKS, Reasons, Run, check_verdict
from alphabet_audit.protocol.plan import Plan
from alphabet_audit.protocol.ratios import geometric_mean

# Sources whose hashes every run records: without them nothing of the sort could have been measured.
AUTHORITATIVE = (
    "alphabet_audit/ledger.py",
    "alphabet_baselines/registry.py",
    "alphabet_core/model.py",
    "torch/__init__.py",
)
PLAIN_FLOAT32 = {"matmul_tf32": False, "cudnn_tf32": False, "autocast": False, "matmul_precision": "highest"}


Input = TypeVar("Input")


@dataclass(frozen=True)
class Evaluation:
    """The verdict on a run, every reason against it, and what it found: geometric means by design and phase."""

    status: str
    reasons: tuple[str, ...]
    kind: str = ""
    scope: str = ""
    device: str = ""
    means: dict[str, dict[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def evaluate(folder: Path, declarations: Declarations) -> Evaluation:
    """The verdict on the run in a folder, of the ledger or of parity. A run that cannot be read fails."""
    try:
        manifest = read_manifest(folder)
        records = read_records((folder / RECORDS).read_bytes(), RECORDS)
    except AuditError as error:
        return Evaluation(FAIL, (str(error),))
    except OSError as error:
        return Evaluation(FAIL, (f"{RECORDS} cannot be read: {error.strerror}",))
    copies = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    return evaluate_records(manifest, records, copies, declarations)


def evaluate_records(
    manifest: Record, records: list[Record], copies: Mapping[str, bytes], declarations: Declarations
) -> Evaluation:
    """The verdict on a run whose files were read and whose chain holds; copies: the run's own declarations by name."""
    formal = [*check_manifest(manifest, records), *check_copies(copies, manifest, declarations), *check_forms(records)]
    if formal:  # nothing can be recomputed from what is not well formed
        return Evaluation(FAIL, tuple(formal))
    environment = list(attempt(check_environment, manifest))
    if manifest["kind"] == "parity":
        return judge_parity(manifest, records, declarations, environment)
    return judge_ledger(manifest, records, declarations, environment)


def judge_ledger(manifest: Record, records: list[Record], declarations: Declarations, reasons: list[str]) -> Evaluation:
    """The verdict on a ledger by all of its checks; `reasons` are those already found."""
    scope = str(manifest["plan"].get("scope"))
    try:
        plan = Plan(scope, declarations)
        declared = plan.to_record()
    except AuditError as error:
        return Evaluation(FAIL, (str(error),))
    if manifest["plan"] != declared:
        changed = sorted(
            name for name in {*declared, *manifest["plan"]} if declared.get(name) != manifest["plan"].get(name)
        )
        return Evaluation(FAIL, (f"the plan in the manifest is not the declared one: {', '.join(changed)} differ",))
    run = Run(manifest, records, plan)
    reasons = [*reasons, *(reason for check in LEDGER_CHECKS for reason in attempt(check, run))]
    status = FAIL if reasons else (PASS if scope == ALL else PARTIAL)
    rows = [record for record in run.of("row") if record["opponent"] != ALPHABET]
    nulls = {row.key for row in plan.null_rows}
    counts = {
        "cells": len({(row["design"], row["opponent"]) for row in rows}),
        "rows": len(rows),
        "groups": sum(group["key"] not in nulls for group in run.of("group")),
    }
    return Evaluation(status, tuple(reasons), "ledger", scope, manifest["device"], find_means(rows), counts)


def attempt(check: Callable[[Input], Reasons], given: Input) -> Reasons:
    """The reasons that a check gives; that a check cannot be made is a reason too."""
    try:
        yield from check(given)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        yield f"{check.__name__.replace('_', ' ')}: cannot be made, {type(error).__name__} {error}"


def find_means(rows: list[Record]) -> dict[str, dict[str, float]]:
    """The geometric mean of every design and phase, over the rows that have a ratio."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if "ratio" in row:
            found.setdefault(row["design"], {}).setdefault(row["phase"], []).append(row["ratio"])
    return {
        design: {phase: geometric_mean(ratios) for phase, ratios in phases.items()} for design, phases in found.items()
    }


def judge_parity(manifest: Record, records: list[Record], declarations: Declarations, reasons: list[str]) -> Evaluation:
    """The verdict on a parity run: each gate is there once; gates that were not run make it partial, not failed."""
    reasons, gates = list(reasons), records[1:]
    if any(record["kind"] != "parity" for record in gates):
        return Evaluation(FAIL, ("a parity run holds records of other kinds",))
    expected = expected_cases(manifest["device"])
    found = [(record["runtime"], record["key"]) for record in gates]
    if sorted(found) != sorted(expected):
        odd = sorted(set(found) ^ set(expected)) or "one is there twice"
        reasons.append(f"the gates are not those of this device: {odd}")
    ran = [record for record in gates if not was_skipped(record)]
    for record in ran:
        where, case = f"{record['runtime']}, {record['key']}", expected.get((record["runtime"], record["key"]))
        if (manifest["device"], record["runtime"]) == ("cpu", LEDGER_RUNTIMES["cuda"]):
            reasons.append(f"{where}: ran on a machine without CUDA, where it must be skipped")
        if case is None or record["case"] != case.to_record():
            reasons.append(f"{where}: is not the case that was declared")
            continue
        reasons += check_verdict(where, record, GATE_QUANTITIES[case.gate], declarations.tolerances)
    passed = sum(record["verdict"] == PASS for record in ran)
    counts = {"gates passed": passed, "gates failed": len(ran) - passed, "gates not run": len(gates) - len(ran)}
    status = FAIL if reasons else (PASS if len(ran) == len(gates) else PARTIAL)
    return Evaluation(status, tuple(reasons), "parity", ALL, manifest["device"], counts=counts)


def was_skipped(record: Record) -> bool:
    """Whether a gate was not run for lack of a device or implementation; the CPU's gates can always be run."""
    return bool(record["verdict"] == NOT_RUN and record["runtime"] != LEDGER_RUNTIMES["cpu"] and not record["readings"])


def check_manifest(manifest: Record, records: list[Record]) -> Reasons:
    """Reasons why a manifest is not well formed, or does not belong to these records, all of them."""
    yield from (f"manifest {misfit}" for misfit in find_misfits(manifest, MANIFEST))
    head = hash_of(encode(records[-1])) if records else GENESIS
    if manifest.get("head") != head:
        yield "the manifest names another last record: records were lost, added or changed after it was sealed"
    if manifest.get("records") != len(records):
        yield f"the manifest counts {manifest.get('records')} records; there are {len(records)}"
    if manifest.get("finished") is not True:
        yield "the run is not finished: repeat its command, which resumes it"
    if not records or records[0].get("kind") != "begin" or records[0].get("manifest") != identity_of(manifest):
        yield "the manifest is not the one that the records began with"
    if manifest.get("kind") not in ("ledger", "parity") or manifest.get("device") not in LEDGER_RUNTIMES:
        yield f"a run of kind {manifest.get('kind')!r} on device {manifest.get('device')!r} cannot be evaluated"


def check_copies(copies: Mapping[str, bytes], manifest: Record, declarations: Declarations) -> Reasons:
    """Reasons why designs and tolerances, in the run's copies or by the manifest's hashes, are not the project's."""
    if manifest.get("declarations") != declarations.digests:
        yield "designs or tolerances are not this project's: the run was held to other rules"
    for name in FILES:
        if name not in copies:
            yield f"the run's copy of {name} is missing"
        elif hash_of(copies[name]) != declarations.digests[name]:
            yield f"the run's copy of {name} is not this project's"


def check_environment(manifest: Record) -> Reasons:
    """Reasons why the recorded device, settings and sources do not let the result be repeated."""
    environment = manifest["environment"]
    if environment.get("device", {}).get("type") != manifest["device"] or not environment["device"].get("name"):
        yield f"the environment does not describe the run's device, {manifest['device']}"
    if environment.get("settings") != PLAIN_FLOAT32:
        yield f"TF32, autocast and reduced precision must be off; settings are {environment.get('settings')}"
    if not environment.get("versions", {}).get("torch") or not environment.get("system", {}).get("python"):
        yield "the versions of Python and torch are not recorded"
    imports = environment.get("imports", {})
    runtime = "alphabet_cpu/runtime.py" if manifest["device"] == "cpu" else "alphabet_triton/runtime.py"
    for name in (*AUTHORITATIVE, runtime):
        if name not in imports:
            yield f"the hash of {name} is not recorded"
    if not all(map(is_hash, imports.values())):
        yield "a recorded source has no hash"
    if not environment.get("threads", {}).get("torch"):
        yield "the number of threads is not recorded"
    git = environment.get("git")
    if not git or not git.get("commit"):
        yield "the commit is not recorded, since the packages did not come from a checkout: install them from one"
    elif git.get("dirty") is not False:
        yield "the sources differed from their commit: commit them and run again"
