"""`alphabet-audit parity`: every gate for every runtime that this machine can run."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from alphabet_audit.declare.cases import INTERPRETED, NATIVE, PLANS
from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.verdicts import FAIL, NOT_RUN
from alphabet_audit.errors import AuditError, printable
from alphabet_audit.evidence.chain import identity_of
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.gates import run_case
from alphabet_audit.gates.runtimes import Runtime, cpu_runtime, has_cuda, triton_runtime
from alphabet_audit.protocol.outcomes import Outcome, read_outcome, skip_case

NEEDS_CUDA = "needs a CUDA device"
# The reduced plan takes one to two minutes through the interpreter; after this time its process is killed.
INTERPRETER_TIMEOUT_SECONDS = 480.0


def run_parity(declarations: Declarations, folder: Path | None = None) -> Iterator[Outcome]:
    """All outcomes as they come: of the CPU runtime, then of Triton's kernels, on a GPU or interpreted.

    folder: where the declarations were read from, for a process of its own; None if they are this package's
    """
    yield from run_plan(cpu_runtime(), declarations)
    if has_cuda():
        yield from run_plan(triton_runtime("cuda"), declarations)
        return
    yield from (skip_case(NATIVE, case, NEEDS_CUDA) for case in PLANS["full"])
    yield from run_interpreted(folder)


def run_plan(runtime: Runtime, declarations: Declarations) -> Iterator[Outcome]:
    """The outcome of every case of a runtime's plan, as it comes."""
    for case in PLANS[runtime.plan]:
        yield run_case(runtime, case, declarations.tolerances)


def run_interpreted(folder: Path | None = None) -> Iterator[Outcome]:
    """The outcomes of Triton's kernels through its interpreter, in a process of its own.

    If the process ends early, its remaining cases fail.
    """
    left = {case.key: case for case in PLANS["reduced"]}
    with tempfile.TemporaryFile("w+") as errors:
        command = [
            sys.executable,
            "-m",
            "alphabet_audit.measure.interpreted",
            *([] if folder is None else [str(folder)]),
        ]
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
            watchdog = threading.Timer(INTERPRETER_TIMEOUT_SECONDS, child.kill)
            watchdog.start()
            try:
                for line in child.stdout or ():
                    outcome = read_outcome(json.loads(line))
                    del left[outcome.case.key]
                    yield outcome
            finally:
                watchdog.cancel()
                child.kill()
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["without a message"])[-1]
    reason = printable(f"the interpreter's process ended early: {last}", 500)
    yield from (Outcome(case, INTERPRETED, FAIL, detail=reason) for case in left.values())


def record_parity(outcomes: Iterator[Outcome], evidence: Evidence, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Record every outcome as it comes and report it; returns them all. A parity run is not resumed."""
    if evidence.records:
        raise AuditError(f"{evidence.folder} holds a run already; choose another --out")
    evidence.append("begin", manifest=identity_of(evidence.manifest))
    found = []
    for outcome in outcomes:
        evidence.append("parity", **outcome.to_record())
        report(outcome)
        found.append(outcome)
    evidence.seal(finished=True)
    return found


def judge_outcomes(outcomes: list[Outcome]) -> bool:
    """Whether nothing failed and anything was run at all."""
    return all(outcome.verdict != FAIL for outcome in outcomes) and any(
        outcome.verdict != NOT_RUN for outcome in outcomes
    )
