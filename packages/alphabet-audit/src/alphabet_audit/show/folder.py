"""The verdict on all that lies in a run's folder: evidence, report, head and signature, and the sources it names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.verdicts import FAIL
from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.chain import read_manifest
from alphabet_audit.judge.evaluate import Evaluation, evaluate
from alphabet_audit.judge.seal import HEAD, require_own_head, verify_head
from alphabet_audit.judge.sources import check_commit
from alphabet_audit.show import PAGE, TABLE
from alphabet_audit.show.results import read_results


def judge_folder(
    run: Path, declarations: Declarations, signature: Path | None, checkout: Path | None
) -> tuple[Evaluation, list[str]]:
    """The verdict on a run, its report, its signature and its sources, and notes on what else was found."""
    evaluation = evaluate(run, declarations)
    wrong: list[str] = []
    notes: list[str] = []
    try:
        if evaluation.kind == "ledger" and any(os.path.lexists(run / name) for name in (PAGE, TABLE)):
            wrong, notes = read_and_check_report(run, declarations)
        if signature is not None:
            notes.append(verify_head(run, signature))
        elif evaluation.kind and os.path.lexists(run / HEAD):
            require_own_head(run)
            notes.append(f"{HEAD} is the head of this evidence")
        if checkout is not None and evaluation.kind:
            wrong += (found := list(check_commit(read_manifest(run), checkout)))
            notes += [] if found else [f"the recorded sources are those of their commit in {checkout}"]
    except AuditError as error:
        wrong.append(str(error))
    if wrong:
        evaluation = replace(evaluation, status=FAIL, reasons=(*evaluation.reasons, *wrong))
    return evaluation, notes


def read_and_check_report(run: Path, declarations: Declarations) -> tuple[list[str], list[str]]:
    """Reasons against the report beside some evidence, and what was found right with it."""
    from alphabet_audit.show.report_check import check_report  # with templates, which only a report needs

    with without_traceback(run):
        return check_report(run, read_results(run, declarations), declarations)


@contextmanager
def without_traceback(*runs: Path) -> Iterator[None]:
    """Whatever odd evidence does to code that shows it ends in one line."""
    try:
        yield
    except (AuditError, OSError):
        raise
    except Exception as error:
        shown = ", ".join(map(str, runs))
        raise AuditError(
            f"{shown} cannot be shown ({type(error).__name__}: {printable(error)}); "
            "alphabet-audit evaluate says what is wrong"
        ) from error
