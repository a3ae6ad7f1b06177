"""`alphabet-audit evaluate RUN`: reads evidence only, recomputes everything, and passes nothing that it cannot see.

Neither the code that was measured nor a device is needed: evidence and the declarations are enough.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from alphabet_audit.declare.declarations import FILES, LARGEST_FILE, Declarations
from alphabet_audit.declare.designs import ALL, ALPHABET
from alphabet_audit.declare.vectors import describe_restriction
from alphabet_audit.declare.verdicts import FAIL, PARTIAL, PASS
from alphabet_audit.errors import AuditError, escape_controls, printable
from alphabet_audit.evidence.canonical import Record
from alphabet_audit.evidence.chain import MANIFEST, read_run, require_version
from alphabet_audit.evidence.files import read_bounded
from alphabet_audit.evidence.schema import check_manifest_form, check_record_forms
from alphabet_audit.judge import agreement, cells, order, repeated, timing
from alphabet_audit.judge.headline import Headline, find_headlines, find_means, find_total
from alphabet_audit.judge.manifest import check_beginning, check_copies, check_environment, check_manifest
from alphabet_audit.judge.parity import check_parity_run, count_gates
from alphabet_audit.judge.remarks import Remark, find_remarks
from alphabet_audit.judge.run import Failure, Reasons, Run
from alphabet_audit.protocol.plan import Plan

Input = TypeVar("Input")
# What can be asked of a part of a run, and what only of all of it.
PART_CHECKS: tuple[Callable[[Run], Reasons], ...] = (
    order.check_sessions,
    timing.check_calibration,
    timing.check_orders,
    timing.check_samples,
    repeated.check_repeated_samples,
    timing.check_rows,
    agreement.check_executions,
    agreement.check_parity,
    agreement.check_gates,
    cells.check_cells,
)
LEDGER_CHECKS = (
    order.check_completeness, order.check_totals, order.check_order, *PART_CHECKS, timing.check_noise
)  # fmt: skip


@dataclass(frozen=True)
class Evaluation:
    """The verdict on a run, every reason against it, and what it found.

    restriction: of vector instructions, in words to stand behind the device
    means: geometric means by design and phase; headlines: by phase; total: of both phases together
    remarks: what is possible but worth a look
    """

    status: str
    reasons: tuple[str, ...]
    kind: str = ""
    scope: str = ""
    device: str = ""
    version: int = 0
    restriction: str = ""
    means: dict[str, dict[str, float]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    headlines: dict[str, Headline] = field(default_factory=dict)
    total: Headline | None = None
    remarks: tuple[Remark, ...] = ()

    def describe_counts(self) -> str:
        """What was counted, in one line."""
        return ", ".join(describe_count(count, name) for name, count in self.counts.items())


def describe_count(count: int, plural: str) -> str:
    """A count in words, given the plural of what is counted: 1 session, 1,260 groups, 1 gate passed."""
    noun, *rest = plural.split(" ")
    return " ".join([f"{count:,}", noun.removesuffix("s") if count == 1 else noun, *rest])


def evaluate(folder: Path, declarations: Declarations) -> Evaluation:
    """The verdict on the run in a folder, of the ledger or of parity. A run that cannot be read fails."""
    try:
        manifest, records = read_run(folder)
        copies = read_copies(folder)
    except AuditError as error:
        return Evaluation(FAIL, (str(error),))
    return evaluate_records(manifest, records, copies, declarations)


def read_copies(folder: Path) -> dict[str, bytes]:
    """The run's own declarations by name, those that are there."""
    return {name: read_bounded(folder / name, LARGEST_FILE) for name in FILES if (folder / name).exists()}


def evaluate_records(
    manifest: Record, records: list[Record], copies: Mapping[str, bytes], declarations: Declarations
) -> Evaluation:
    """The verdict on a run whose files were read and whose chain holds; copies: the run's own declarations by name."""
    try:
        require_version(manifest, MANIFEST)
    except AuditError as error:
        return Evaluation(FAIL, (str(error),))
    formal = [*check_manifest_form(manifest), *check_record_forms(records, manifest["version"])]
    if formal:  # nothing can be recomputed from what is not well formed
        return Evaluation(FAIL, tuple(formal), version=manifest["version"])
    return judge_formed(manifest, records, copies, declarations)


def judge_formed(
    manifest: Record, records: list[Record], copies: Mapping[str, bytes], declarations: Declarations
) -> Evaluation:
    """The verdict on a run whose manifest and records are well formed."""
    reasons = [
        *check_manifest(manifest, records),
        *check_copies(copies, manifest, declarations),
        *attempt(check_environment, manifest),
    ]
    if manifest["kind"] == "parity":
        return judge_parity(manifest, records, declarations, reasons)
    return judge_ledger(manifest, records, declarations, reasons)


def judge_parity(manifest: Record, records: list[Record], declarations: Declarations, reasons: list[str]) -> Evaluation:
    """The verdict on a parity run; `reasons` are those already found."""
    gates = records[1:]
    reasons = [*reasons, *attempt(lambda found: check_parity_run(manifest, found, declarations), gates)]
    counts = {} if any(record["kind"] != "parity" for record in gates) else count_gates(gates)
    status = FAIL if reasons else (PARTIAL if counts["gates not run"] else PASS)
    return Evaluation(status, tuple(reasons), "parity", ALL, manifest["device"], manifest["version"], counts=counts)


def judge_ledger(manifest: Record, records: list[Record], declarations: Declarations, reasons: list[str]) -> Evaluation:
    """The verdict on a ledger by all of its checks; `reasons` are those already found."""
    try:
        plan = follow_plan(manifest, declarations)
    except AuditError as error:
        return Evaluation(FAIL, (*reasons, str(error)), version=manifest["version"])
    run = Run(manifest, records, plan)
    reasons = [*reasons, *(reason for check in LEDGER_CHECKS for reason in attempt(check, run))]
    status = FAIL if reasons else (PASS if plan.scope == ALL else PARTIAL)
    rows = [record for record in run.of("row") if record["opponent"] != ALPHABET]
    nulls = {row.key for row in plan.null_rows}
    counts = {
        "cells": len({(row["design"], row["opponent"]) for row in rows}),
        "rows": len(rows),
        "groups": sum(group["key"] not in nulls for group in run.of("group")),
        "sessions": len(run.of("session")),
        "resumes": len(run.of("resume")),
    }
    restriction = describe_restriction(manifest["environment"].get("vectors"))
    found = Evaluation(
        status, tuple(reasons), "ledger", plan.scope, manifest["device"], manifest["version"], restriction,
        counts=counts,
    )  # fmt: skip
    if not all(isinstance(reason, Failure) for reason in reasons):
        return found  # what contradicts itself has no results
    return replace(
        found, means=find_means(rows), headlines=find_headlines(rows), total=find_total(rows),
        remarks=tuple(find_remarks(run)),
    )  # fmt: skip


def follow_plan(manifest: Record, declarations: Declarations) -> Plan:
    """The plan that a ledger's manifest names; an error if it is not the declared one."""
    plan = Plan(manifest["plan"]["scope"], declarations, version=manifest["version"])
    declared = plan.to_record()
    changed = sorted(name for name in declared if declared[name] != manifest["plan"][name])
    if changed:
        raise AuditError(f"the plan in the manifest is not the declared one: {', '.join(changed)} differ")
    return plan


def find_contradictions(
    manifest: Record, records: list[Record], copies: Mapping[str, bytes], declarations: Declarations
) -> Reasons:
    """Reasons why a ledger that was interrupted must not be resumed: no running of it gives what it holds.

    A gate that failed or a row that crashed is none: an honest run can have both, and goes on.
    """
    formal = [*check_manifest_form(manifest), *check_record_forms(records, manifest["version"])]
    yield from formal
    if formal:
        return
    yield from check_beginning(manifest, records)
    yield from check_copies(copies, manifest, declarations)
    yield from (reason for reason in attempt(check_environment, manifest) if not isinstance(reason, Failure))
    run = Run(manifest, records, follow_plan(manifest, declarations))

    def check_beginning_of_order(part: Run) -> Reasons:
        return order.check_order(part, whole=part.manifest["finished"])

    for check in (check_beginning_of_order, *PART_CHECKS):
        yield from (reason for reason in attempt(check, run) if not isinstance(reason, Failure))


def attempt(check: Callable[[Input], Reasons], given: Input) -> Reasons:
    """The reasons that a check gives, each in one printable line; that a check cannot be made is a reason too."""
    try:
        yield from (type(reason)(escape_controls(reason)) for reason in check(given))
    except Exception as error:  # whatever a forger makes of evidence must end in a reason, not in a traceback
        name = getattr(check, "__name__", "check").replace("_", " ")
        yield f"{name}: cannot be made, {type(error).__name__} {printable(error)}"
