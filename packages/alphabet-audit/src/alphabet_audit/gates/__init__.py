"""The parity gates: functions of a runtime, a case and the tolerances that give readings.

examples    the model and batch of a case
comparing   three results to one reading                    agreement     forward, gradients, masks
trajectory  three optimization steps                        edges         zero drive, differences, NaN and Inf
"""

from collections.abc import Callable, Mapping

from alphabet_audit.cases import Case
from alphabet_audit.gates import agreement, edges, trajectory
from alphabet_audit.gates.comparing import NotFusedError
from alphabet_audit.outcomes import Outcome
from alphabet_audit.runtimes import Runtime
from alphabet_audit.tolerances import FAIL, Reading, Tolerances, judge

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
    """Try a runtime on a case. Whatever goes wrong is a failed gate: a crash is no agreement."""
    try:
        readings = tuple(GATES[case.gate](runtime, case, rules))
    except NotFusedError as reason:
        return Outcome(case, runtime.name, FAIL, detail=f"not its own way but {reason}")
    except Exception as error:
        return Outcome(case, runtime.name, FAIL, detail=f"{type(error).__name__}: {error}")
    return Outcome(case, runtime.name, judge(readings), readings)


__all__ = ["GATES", "run_case"]
