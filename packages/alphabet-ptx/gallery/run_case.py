"""Cases of one module in a process of its own: `python run_case.py cases_liger sm_89 "RMS norm"` prints rows as JSON.

In place of names `quick` runs those cases that are marked so.
"""

import importlib
import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from alphabet_ptx.driver import ptx_device
from case import Case, Source
from outcomes import describe

MARK = "gallery row: "
QUICK = "quick"


def list_cases(module: str) -> Iterator[Case]:
    """The cases of a module in their order."""
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, Source):
            yield from value.cases


def run(case: Case, arch: str) -> dict[str, Any]:
    """The row of a case: right, wrong, refused, or a fault that its source is known for."""
    row: dict[str, Any] = {"outcome": "right", "error": "", "worst": "", "reason": ""}
    start = time.perf_counter()
    with ptx_device(arch=arch, bounds=case.bounds) as device:
        try:
            errors = {each.name: each.error for each in case.run()}
            worst = max(errors, key=lambda name: math.inf if math.isnan(errors[name]) else errors[name])
            row |= {"error": f"{errors[worst]:.1e}", "worst": worst}
            if not errors[worst] <= case.tolerance:
                row |= {"outcome": "wrong", "reason": f"{worst} differs by {row['error']} of {case.tolerance:.0e}"}
            elif not device.report:
                row |= {"outcome": "refused", "reason": "no kernel was launched"}
        except Exception as error:  # someone else's code may raise anything; the row says what
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            known = case.fault and case.fault in reason
            row |= {"outcome": "fault found" if known else "refused", "reason": reason[:600]}
        row |= describe(device.report)
    return row | {"seconds": round(time.perf_counter() - start, 1)}


if __name__ == "__main__":
    module, arch, *names = sys.argv[1:]
    for case in list_cases(module):
        if case.name in names or (case.quick and names == [QUICK]):
            print(MARK + json.dumps(run(case, arch) | {"name": case.name}), flush=True)
