"""`alphabet-audit parity`: every gate of SPEC section 4 for every runtime that this machine can run."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from alphabet_audit.cases import PLANS
from alphabet_audit.declarations import Declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence import Evidence, identity_of
from alphabet_audit.gates import run_case
from alphabet_audit.outcomes import Outcome, read_outcome, skip_case
from alphabet_audit.parity_plan import INTERPRETED, NATIVE
from alphabet_audit.runtimes import Runtime, cpu_runtime, has_cuda, triton_runtime
from alphabet_audit.tolerances import FAIL, NOT_RUN

NEEDS_CUDA = "needs a CUDA device; none is here"
# A whole plan through the interpreter takes one to two minutes; beyond this it hangs.
PATIENCE = 480.0
Report = Callable[[Outcome], None]


def run_parity(declarations: Declarations, folder: Path) -> Iterator[Outcome]:
    """All outcomes, as they come: the CPU runtime, then Triton's kernels, natively or interpreted."""
    yield from run_plan(cpu_runtime(), declarations)
    if has_cuda():
        yield from run_plan(triton_runtime("cuda"), declarations)
        return
    yield from (skip_case(NATIVE, case, NEEDS_CUDA) for case in PLANS["full"])
    yield from run_interpreted(folder)


def run_plan(runtime: Runtime, declarations: Declarations) -> Iterator[Outcome]:
    """Every case of a runtime's plan."""
    for case in PLANS[runtime.plan]:
        yield run_case(runtime, case, declarations.tolerances)


def run_interpreted(folder: Path) -> Iterator[Outcome]:
    """Triton's kernels through its interpreter, which a process must choose before it imports anything.

    A child that ends early leaves its remaining cases failed, not forgotten.
    """
    left = {case.key: case for case in PLANS["reduced"]}
    with tempfile.TemporaryFile("w+") as complaints:
        command = [sys.executable, "-m", "alphabet_audit.interpreted", str(folder)]
        chosen = {**os.environ, "TRITON_INTERPRET": "1"}
        with subprocess.Popen(command, env=chosen, stdout=subprocess.PIPE, stderr=complaints, text=True) as child:
            watchdog = threading.Timer(PATIENCE, child.kill)
            watchdog.start()
            try:
                for line in child.stdout or ():
                    outcome = read_outcome(json.loads(line))
                    del left[outcome.case.key]
                    yield outcome
            finally:
                watchdog.cancel()
                child.kill()
        complaints.seek(0)
        last = (complaints.read().strip().splitlines() or ["it said nothing"])[-1]
    yield from (Outcome(case, INTERPRETED, FAIL, detail=f"its process ended: {last}") for case in left.values())


def record_parity(outcomes: Iterator[Outcome], evidence: Evidence, report: Report) -> list[Outcome]:
    """Write down every outcome as it comes, and tell whoever watches. A run of gates is done at once, not resumed."""
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
    """Whether nothing failed and something was run at all."""
    return all(outcome.verdict != FAIL for outcome in outcomes) and any(
        outcome.verdict != NOT_RUN for outcome in outcomes
    )
