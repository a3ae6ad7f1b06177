"""The two kinds of arm that a ledger times: ALPHABET by a fused runtime, and a family by one of its executions."""

import copy
from dataclasses import dataclass, replace

import torch
from alphabet_core import Alphabet, TrainingStep
from alphabet_core.fused import restore
from torch import Tensor, nn

from alphabet_audit.declare.cases import Case
from alphabet_audit.declare.designs import INFERENCE
from alphabet_audit.declare.tolerances import Tolerances
from alphabet_audit.gates import run_case
from alphabet_audit.gates.comparing import compare, compare_scaled
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.gates.trajectory import QUANTILES, flatten, read_quantile
from alphabet_audit.measure.clock import Call
from alphabet_audit.protocol.readings import Reading

STEPS_FROM_THE_BEGINNING = 3


class Beginning:
    """The parameters and buffers that a model began with.

    A family's gradient is checked near them and not where the timed steps led: the faster the machine, the closer the
    model fits its one batch by then, until the gradient is all rounding and no two executions agree on it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._values = [tensor.clone() for tensor in self._tensors()]

    def _tensors(self) -> list[Tensor]:
        return [tensor.detach() for tensor in (*self._model.parameters(), *self._model.buffers())]

    def retake(self, call: Call) -> None:
        """Put them back where they are and take a few steps, so that what is read next was written by the arm itself.

        An arm that is a step behind spends the first on the gradient where it fitted its batch, which moves nothing. A
        model that is no longer finite stays as it is, for the readings to say so.
        """
        tensors = self._tensors()
        if all(torch.isfinite(tensor).all() for tensor in tensors):
            restore(tensors, self._values)
            for _ in range(STEPS_FROM_THE_BEGINNING):
                call()


@dataclass(frozen=True)
class AlphabetArm:
    """ALPHABET. case: the parity gate of the phase at the shape that is timed; trainer: what does steps, if any."""

    call: Call
    runtime: Runtime
    case: Case
    rules: Tolerances
    model: Alphabet
    batch: tuple[Tensor, Tensor]
    trainer: TrainingStep | None = None

    def check(self) -> tuple[Reading, ...]:
        """Readings of the runtime by the gate of the phase, and of this very arm."""
        outcome = run_case(self.runtime, self.case, self.rules)
        if not outcome.readings:
            raise RuntimeError(outcome.detail)
        return (*outcome.readings, *self.recheck())

    def recheck(self) -> tuple[Reading, ...]:
        """Readings of one call of the arm that is timed, from wherever its model and optimizer are by now."""
        values, targets = (tensor.cpu() for tensor in self.batch)
        plain = copy.deepcopy(self.model).cpu()
        exact = copy.deepcopy(plain).double()
        if self.trainer is None:
            with torch.no_grad():
                found, usual, wanted = self.call(), plain(values), exact(values.double())
            assert isinstance(found, Tensor)
            return (compare("timed: logits", found.cpu(), usual, wanted, self.rules, "logits"),)
        steps = [TrainingStep(model, self.trainer.recipe) for model in (plain, exact)]
        for (
            step
        ) in steps:  # with averages of its own: loading alone shares those of the same type, which the call moves
            step.optimizer.load_state_dict(copy.deepcopy(self.trainer.optimizer.state_dict()))
        loss = self.call()
        assert isinstance(loss, Tensor)
        losses = steps[0](values, targets), steps[1](values.double(), targets)
        parameters = flatten(self.model), flatten(plain), flatten(exact)
        largest = "parameters-largest"
        return (
            compare("timed: loss", loss.cpu(), *losses, self.rules, "loss"),
            *(replace(read_quantile(name, *parameters, self.rules), quantity=f"timed: {name}") for name in QUANTILES),
            compare(f"timed: {largest}", *parameters, self.rules, largest),
        )


@dataclass(frozen=True)
class FamilyArm:
    """A family's model by one execution, checked against the family's first algorithm in float32 and in float64."""

    call: Call
    model: nn.Module
    reference: nn.Module
    batch: tuple[Tensor, Tensor]
    phase: str
    rules: Tolerances
    beginning: Beginning

    def check(self) -> tuple[Reading, ...]:
        """Readings of one call of this arm; of a step, the fourth from where the model began."""
        if self.phase != INFERENCE:
            self.beginning.retake(self.call)
        self.reference.load_state_dict(self.model.state_dict())
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

    def recheck(self) -> tuple[Reading, ...]:
        """The same readings after the groups, under names of their own."""
        return tuple(replace(reading, quantity=f"family: {reading.quantity}") for reading in self.check())


def gather_gradients(model: nn.Module) -> Tensor:
    """The clipped gradient that the last step left behind, all parameters in one vector; NaN where there is none."""
    found = [p.grad if p.grad is not None else torch.full_like(p, torch.nan) for p in model.parameters()]
    return torch.cat([gradient.detach().cpu().flatten() for gradient in found])
