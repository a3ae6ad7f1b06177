"""The two kinds of arm that a ledger times: ALPHABET by a fused runtime, and a family by one of its executions."""

import copy
from dataclasses import dataclass

import torch
from alphabet_core import TrainingStep
from torch import Tensor, nn

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.designs import INFERENCE
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates import run_case
from alphabet_audit.gates.comparing import compare_scaled
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.measure.clock import Call
from alphabet_audit.protocol.readings import Reading


@dataclass(frozen=True)
class AlphabetArm:
    """ALPHABET. case: the parity gate of the phase at the shape that is timed, by which the arm is checked."""

    call: Call
    runtime: Runtime
    case: Case
    rules: Tolerances

    def check(self) -> tuple[Reading, ...]:
        outcome = run_case(self.runtime, self.case, self.rules)
        if not outcome.readings:
            raise RuntimeError(outcome.detail)
        return outcome.readings


@dataclass(frozen=True)
class FamilyArm:
    """A family's model by one execution, checked against the family's first algorithm in float32 and in float64."""

    call: Call
    model: nn.Module
    reference: nn.Module
    batch: tuple[Tensor, Tensor]
    phase: str
    rules: Tolerances

    def check(self) -> tuple[Reading, ...]:
        plain = copy.deepcopy(self.reference)
        exact = copy.deepcopy(self.reference).double()
        values, targets = self.batch
        if self.phase == INFERENCE:
            with torch.no_grad():
                results = self.call(), plain(values), exact(values.double())
            found, usual, wanted = (result.cpu() for result in results if isinstance(result, Tensor))
            return (compare_scaled("logits", found, usual, wanted, self.rules, "family-logits"),)
        loss = self.call()
        assert isinstance(loss, Tensor)
        losses = TrainingStep(plain)(values, targets).cpu(), TrainingStep(exact)(values.double(), targets).cpu()
        found, usual, wanted = (gather_gradients(model) for model in (self.model, plain, exact))
        return (
            compare_scaled("loss", loss.cpu(), *losses, self.rules, "family-loss"),
            compare_scaled("gradient", found, usual, wanted, self.rules, "family-gradient"),
        )


def gather_gradients(model: nn.Module) -> Tensor:
    """The clipped gradient that the last step left behind, all parameters in one vector; NaN where there is none."""
    found = [p.grad if p.grad is not None else torch.full_like(p, torch.nan) for p in model.parameters()]
    return torch.cat([gradient.detach().cpu().flatten() for gradient in found])
