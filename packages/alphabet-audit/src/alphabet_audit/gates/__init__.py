"""The parity gates: each takes a runtime, a case and the tolerances, and returns readings.

runtimes    the fused runtimes that are tried
examples    the model and the batch of a case
comparing   a reading from three results: the runtime's, plain torch's and float64's
agreement   logits and gradients, without masks and with every kind
trajectory  three complete optimization steps
edges       zero drive, finite differences, NaN and Inf
"""

from collections.abc import Callable, Mapping

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.declare.verdicts import FAIL
from alphabet_audit.errors import printable
from alphabet_audit.gates import agreement, edges, trajectory
from alphabet_audit.gates.comparing import NotFusedError
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.protocol.outcomes import Outcome
from alphabet_audit.protocol.readings import Reading, judge

DETAIL_LENGTH = 500
Gate = Callable[[Runtime, Case, Tolerances], list[Reading]]
GATES: Mapping[str, Gate] = {
    "forward": agreement.forward,
    "gradients": agreement.gradients,
    "trajectory": trajectory.trajectory,
    "long": agreement.both,
    "short": agreement.both,
    "seven-modes": agreement.both,
    "zero-drive": edges.zero_drive,
    "finite-differences": edges.finite_differences,
    "non-finite": edges.non_finite,
    "masks": agreement.masks,
}


def run_case(runtime: Runtime, case: Case, rules: Tolerances) -> Outcome:
    """The outcome of trying a runtime on a case. Whatever goes wrong, a crash or a fallback too, fails the gate."""
    try:
        readings = tuple(GATES[case.gate](runtime, case, rules))
    except NotFusedError as reason:
        return Outcome(
            case, runtime.name, FAIL, detail=printable(f"ran the reference instead: {reason}", DETAIL_LENGTH)
        )
    except Exception as error:
        return Outcome(case, runtime.name, FAIL, detail=printable(f"{type(error).__name__}: {error}", DETAIL_LENGTH))
    return Outcome(case, runtime.name, judge(readings), readings)


__all__ = ["GATES", "run_case"]
