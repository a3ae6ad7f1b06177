"""alphabet-audit: parity gates, paired timing, and a ledger whose evaluator passes nothing that it cannot recompute.

What is declared
  declarations      data/: designs and tolerances            designs           cells and rows
  tolerances        rules and readings                       quantities        what each gate must read
  cases             what gates are tried on                  plan              what a ledger will do
  paper             the paper's ledger                       verdicts          pass, fail, not-run, partial
What is run
  parity            every gate on every runtime              gates             one module per kind of comparison
  runtimes          the fused runtimes                       interpreted       Triton's interpreter, in its own process
  ledger            runs and resumes                         workbench         what the ledger asks of a bench
  device_bench      the bench of a real device               arms              what is timed
  executions        how a family can be run                  execution_choice  the fastest exact one
  clock, timing, orders, ratios                              the measurement protocol
  exploring         quick comparisons without evidence       environment       what a measurement depends on
What is kept and judged
  evidence          chained records                          manifest          what is settled before them
  schema            the form of both                         outcomes          what came of a gate
  evaluate, checks  the verdict
What is shown
  cli, screen       the five commands                        report, pictures  the page of a run
  compare           two runs                                 results           what both of these read
"""

from alphabet_audit.declarations import Declarations, read_declarations
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
    "geometric_mean",
    "read_declarations",
]
