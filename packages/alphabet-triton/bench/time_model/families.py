"""What can be counted of the families' recorded calls: operators and floating-point operations.

A recorded call has at least one node per operator that computes, and cannot be faster than its operations at the data
sheet's rate. So this gives a least time, not an estimate like that of our own kernels: what cuBLAS, cuDNN, cuFFT and
torch's kernels take is not in it. What only exists on a GPU (cuDNN's recurrences, Mamba's official kernels) and what
torch.compile would generate cannot be counted here.
"""

from dataclasses import dataclass
from typing import Any

import torch
from alphabet_audit.declare.declarations import read_declarations
from alphabet_audit.declare.executions import read_executions
from alphabet_audit.measure.candidates import resolve_candidate
from alphabet_baselines import build
from alphabet_core import TrainingStep, value_checks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from time_model.ada import CYCLES_PER_SECOND, MULTIPROCESSORS, RATES, SECONDS_PER_NODE
from time_model.designs import PHASES, Design

FLOP_PER_SECOND = 2 * RATES["float32"] * MULTIPROCESSORS * CYCLES_PER_SECOND
SEQUENCES = 2
CUDNN = ("fused",)  # recurrences that cuDNN runs on a GPU, and torch token by token here
# Operators that compute nothing although their schemas do not say that they return a view.
IDLE = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh")


class Operators(TorchDispatchMode):
    """Counts operators that compute: views and allocations are none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not function.is_view and function._schema.name.split("::")[1] not in IDLE
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Least:
    """The least of one algorithm of a family in one phase; `problem` says why it could not be counted."""

    family: str
    algorithm: str
    phase: str
    operators: int = 0
    flops: float = 0.0
    problem: str = ""

    @property
    def seconds(self) -> float:
        """Nodes and arithmetic one after another: the arithmetic lies inside the nodes."""
        return self.operators * SECONDS_PER_NODE + self.flops / FLOP_PER_SECOND


def count_families(design: Design, sizing: str) -> list[Least]:
    """The least of every family's algorithms, without loops over tokens, which are never the fastest on a GPU."""
    declared, executions = read_declarations(None), read_executions()
    found = []
    for family in declared.designs.families:
        candidate = resolve_candidate(declared.designs, sizing, family, design[2])
        for algorithm in executions.algorithms[family]:
            if algorithm in executions.token_loops:
                continue
            if algorithm in CUDNN:
                found += [Least(family, algorithm, phase, problem="cuDNN's kernels") for phase in PHASES]
                continue
            for phase in PHASES:
                try:
                    counted = count_algorithm(declared.designs, candidate, algorithm, design, phase)
                    found.append(Least(family, algorithm, phase, *counted))
                except Exception as error:  # whatever torch has no meaning for without a GPU
                    found.append(
                        Least(family, algorithm, phase, problem=f"{type(error).__name__}: {error}".split("\n")[0])
                    )
    return found


def count_algorithm(designs: Any, candidate: Any, algorithm: str, design: Design, phase: str) -> tuple[int, float]:
    """Operators and floating-point operations of one call; few sequences run, on the CPU, and stand for all."""
    batch, length, _ = design
    sizes = {"channels": designs.channels, "outputs": designs.outputs}
    model = build(candidate.family, width=candidate.width, choice=candidate.choice, algorithm=algorithm, **sizes)
    values, targets = torch.zeros(SEQUENCES, length, designs.channels), torch.zeros(SEQUENCES, dtype=torch.long)
    step = TrainingStep(model)
    step.optimizer.param_groups[0]["foreach"] = True  # as torch chooses for CUDA's tensors
    operators, flops = Operators(), FlopCounterMode(display=False)
    with value_checks(False):
        if phase == "step":
            step(values, targets)  # the optimizer's state is made
            with flops, operators:
                step(values, targets)
        else:
            with torch.no_grad(), flops, operators:
                model(values)
    return operators.count, float(flops.get_total_flops()) * batch / SEQUENCES


def format_families(found: list[Least]) -> list[str]:
    """A line for every family and phase: the least of its algorithms, and what could not be counted."""
    lines = ["family       phase      least of  algorithm     operators  GFLOP  us, at least   not counted"]
    for family in dict.fromkeys(each.family for each in found):
        for phase in PHASES:
            mine = [each for each in found if (each.family, each.phase) == (family, phase)]
            counted = [each for each in mine if not each.problem]
            others = ", ".join(["compiled", *(each.algorithm for each in mine if each.problem)])
            if counted:
                best = min(counted, key=lambda each: each.seconds)
                figures = f"{best.operators:9d} {best.flops / 1e9:6.2f} {best.seconds * 1e6:13.0f}"
                lines.append(f"{family:12s} {phase:9s} {len(counted):9d}  {best.algorithm:12s} {figures}   {others}")
            else:
                lines.append(f"{family:12s} {phase:9s}         0  {'-':12s} {'':30s}   {others}")
    return lines
