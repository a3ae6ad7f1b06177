"""`python -m alphabet_audit.measure.interpreted [AUDIT]`: the reduced plan through Triton's interpreter, by lines.

It is a process of its own because the interpreter must be chosen before Python starts.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from alphabet_audit.declare.cases import INTERPRETED, PLANS
from alphabet_audit.declare.declarations import read_declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence.canonical import encode
from alphabet_audit.gates.runtimes import triton_runtime
from alphabet_audit.measure.parity import run_plan
from alphabet_audit.protocol.outcomes import skip_case


def main(folder: Path | None) -> None:
    """Print every outcome of the reduced plan as JSON; a runtime that cannot be made is skipped, with the reason."""
    declarations = read_declarations(folder)
    try:
        outcomes = run_plan(triton_runtime("cpu"), declarations)
    except AuditError as error:
        reason = str(error)  # which outlives this block
        outcomes = (skip_case(INTERPRETED, case, reason) for case in PLANS["reduced"])
    # The interpreter computes in numpy, which warns of overflows and NaN where a GPU goes on.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for outcome in outcomes:
            print(encode(outcome.to_record()).decode(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
