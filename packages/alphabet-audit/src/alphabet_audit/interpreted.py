"""`python -m alphabet_audit.interpreted [AUDIT]`: the reduced plan through Triton's interpreter, one outcome a line.

It is a process of its own because the interpreter must be chosen before Python starts.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from alphabet_audit.cases import INTERPRETED, PLANS
from alphabet_audit.declarations import read_declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.evidence import encode
from alphabet_audit.outcomes import skip_case
from alphabet_audit.parity import run_plan
from alphabet_audit.runtimes import triton_runtime


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
