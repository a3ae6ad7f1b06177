"""alphabet-audit: parity gates, paired timing, and a ledger whose evaluator passes nothing that it cannot recompute.

declare     designs, tolerances, cases, quantities: what is settled before anything runs
protocol    plan, orders, repeats, ratios, readings: pure functions that ledger and evaluator share
evidence    chained records, their form, and files that are whole or not there
judge       the verdict, from evidence alone; it imports nothing that measures, so it needs neither torch nor numba
show        terminal, report, comparison of runs
gates       one module per kind of comparison with the reference
measure     arms, clocks, executions, the parity run and the ledger
cli         the console command
"""

from alphabet_audit.declare.declarations import Declarations, read_declarations
from alphabet_audit.errors import AuditError
from alphabet_audit.judge.evaluate import Evaluation, evaluate
from alphabet_audit.protocol.orders import abba_orders
from alphabet_audit.protocol.ratios import geometric_mean

__all__ = [
    "AuditError",
    "Declarations",
    "Evaluation",
    "abba_orders",
    "evaluate",
    "geometric_mean",
    "read_declarations",
]
