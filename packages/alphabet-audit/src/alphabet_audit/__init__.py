"""alphabet-audit: parity gates, paired timing and a ledger that fails closed.

cli           the five commands                             declarations  audit/: designs and tolerances
designs       the 90 cells                                  tolerances    rules, readings, verdicts
parity        every gate on every runtime                   gates         what agreement means, one room each
cases         what gates are tried on                       quantities    what each must have read
runtimes      what is tried                                 interpreted   Triton's interpreter, a process of its own
ledger        runs and resumes                              plan          what a run will do
orders, clock, timing                                       the measurement protocol
arms          the real workbench                            executions    how a family can be run
choosing      the fastest exact execution                   workbench     what the ledger asks of a bench
evidence      chained records, manifest                     environment   what a measurement depends on
evaluate      the verdict                                   checks, schema  what it asks
report        the page                                      compare       two runs
"""

from alphabet_audit.declarations import Declarations, find_audit, read_declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.evaluate import Evaluation, evaluate
from alphabet_audit.orders import abba_orders
from alphabet_audit.ratios import geometric_mean

__all__ = [
    "AuditError",
    "Declarations",
    "Evaluation",
    "abba_orders",
    "evaluate",
    "find_audit",
    "geometric_mean",
    "read_declarations",
]
