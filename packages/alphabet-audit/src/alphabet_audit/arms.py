"""The real workbench: ALPHABET by the device's runtime, and each family by any execution that is exactly itself."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from alphabet_baselines import FAMILIES, build
from alphabet_core import RECIPES, Alphabet, TrainingStep, value_checks
from torch import Tensor, nn

from alphabet_audit.cases import Case, design_case
from alphabet_audit.choosing import Candidate, Choosing
from alphabet_audit.clock import Arm, Clock
from alphabet_audit.declarations import Declarations
from alphabet_audit.designs import INFERENCE, NULL, Contender, Design, Row, Shape, resolve_contender
from alphabet_audit.environment import require_plain_float32
from alphabet_audit.executions import Execution, list_executions
from alphabet_audit.gates import run_case
from alphabet_audit.gates.comparing import compare_scaled, require_fused
from alphabet_audit.outcomes import Outcome
from alphabet_audit.plan import PHASE_GATES, SEED
from alphabet_audit.runtimes import Runtime
from alphabet_audit.tolerances import PASS, Reading, Tolerances, judge

# Latencies of a candidate at the calibration shape; their median decides.
CANDIDATE_SAMPLES = 7
REASON_LENGTH = 300


@dataclass(frozen=True)
class Fused:
    """ALPHABET, checked by the gate of the phase at the shape that is timed."""

    arm: Arm
    runtime: Runtime
    case: Case
    rules: Tolerances

    def check(self) -> tuple[Reading, ...]:
        outcome = run_case(self.runtime, self.case, self.rules)
        if not outcome.readings:
            raise RuntimeError(outcome.detail)
        return outcome.readings


@dataclass(frozen=True)
class Control:
    """A family's model by one execution, checked against its first algorithm in plain torch and in float64."""

    arm: Arm
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
                results = self.arm(), plain(values), exact(values.double())
            found, usual, wanted = (result.cpu() for result in results if isinstance(result, Tensor))
            return (compare_scaled("logits", found, usual, wanted, self.rules, "family-logits"),)
        loss = self.arm()
        assert isinstance(loss, Tensor)
        losses = TrainingStep(plain)(values, targets).cpu(), TrainingStep(exact)(values.double(), targets).cpu()
        found, usual, wanted = (gather_gradients(model) for model in (self.model, plain, exact))
        return (
            compare_scaled("loss", loss.cpu(), *losses, self.rules, "family-loss"),
            compare_scaled("gradient", found, usual, wanted, self.rules, "family-gradient"),
        )


def gather_gradients(model: nn.Module) -> Tensor:
    """What the last step left in every parameter, in one vector: the clipped gradient."""
    found = [p.grad if p.grad is not None else torch.full_like(p, torch.nan) for p in model.parameters()]
    return torch.cat([gradient.detach().cpu().flatten() for gradient in found])


class Bench:
    """Contestants on one device. compiled: torch.compile's executions are tried too, which takes its time on a CPU."""

    def __init__(self, declarations: Declarations, runtime: Runtime, *, compiled: bool = False) -> None:
        self.designs = declarations.designs
        self.rules = declarations.tolerances
        self.runtime = runtime
        self.compiled = compiled
        self._contenders: dict[tuple[str, str, int], Contender] = {}

    @contextmanager
    def session(self) -> Iterator[None]:
        """Plain float32, and inputs that are not looked at while they are timed."""
        require_plain_float32()
        with value_checks(False):
            yield

    def try_gate(self, case: Case) -> Outcome:
        """A gate looks at its inputs, as a user's call does."""
        with value_checks(True):
            return run_case(self.runtime, case, self.rules)

    def try_candidates(self, choosing: Choosing, clock: Clock) -> list[Candidate]:
        """Every execution at the calibration shape."""
        design = Design(choosing.control, self.designs.calibration)
        executions = list_executions(choosing.family, self.runtime.device, compiled=self.compiled)
        return [self._try(Row(design, choosing.family, choosing.phase), each, clock) for each in executions]

    def _try(self, row: Row, execution: Execution, clock: Clock) -> Candidate:
        try:
            contestant = self._control(row, execution)
            readings = contestant.check()
            if judge(readings) != PASS:
                return Candidate(execution.name, readings, reason="disagrees with its reference")
            contestant.arm()
            clock.settle()
            seconds = tuple(clock.measure(contestant.arm, 1) for _ in range(CANDIDATE_SAMPLES))
        except Exception as error:
            return Candidate(execution.name, reason=f"{type(error).__name__}: {error}"[:REASON_LENGTH])
        return Candidate(execution.name, readings, seconds)

    def prepare(self, row: Row, execution: str) -> Fused | Control:
        """The opponent of a row; for a null row, ALPHABET."""
        if row.opponent == NULL:
            return self._fused(row)
        known = {each.name: each for each in list_executions(row.opponent, self.runtime.device, compiled=True)}
        return self._control(row, known[execution])

    def contender(self, control: str, family: str, width: int) -> Contender:
        """The model that stands in a cell, looked for once."""
        key = control, family, width
        if key not in self._contenders:
            self._contenders[key] = resolve_contender(self.designs, *key)
        return self._contenders[key]

    def describe_cells(self, designs: tuple[Design, ...]) -> dict[str, dict[str, Any]]:
        """Every contestant of every design with its size, for the manifest."""
        return {
            design.key: {
                name: self.contender(design.control, name, design.shape.width).to_record()
                for name in (NULL, *self.designs.families)
            }
            for design in designs
        }

    def _batch(self, shape: Shape) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(SEED)
        values = torch.randn(shape.batch, shape.length, self.designs.channels, generator=generator)
        targets = torch.arange(shape.batch) % self.designs.outputs
        return values.to(self.runtime.device), targets.to(self.runtime.device)

    def _build(self, contender: Contender, algorithm: str | None = None) -> nn.Module:
        torch.manual_seed(SEED)
        return build(
            contender.family,
            channels=self.designs.channels,
            outputs=self.designs.outputs,
            width=contender.width,
            choice=contender.choice,
            algorithm=algorithm,
        ).to(self.runtime.device)

    def _fused(self, row: Row) -> Fused:
        shape = row.design.shape
        values, targets = self._batch(shape)
        model = self._build(self.contender(row.design.control, NULL, shape.width))
        assert isinstance(model, Alphabet)
        case = design_case(PHASE_GATES[row.phase], row.design, self.designs.channels, self.designs.outputs)
        if row.phase == INFERENCE:
            inference = self.runtime.infer(model)
            require_fused(inference.path(values))
            return Fused(lambda: inference(values), self.runtime, case, self.rules)
        trainer = self.runtime.train(model, RECIPES["B"])
        require_fused(trainer.path(values))
        return Fused(lambda: trainer.step(values, targets), self.runtime, case, self.rules)

    def _control(self, row: Row, execution: Execution) -> Control:
        contender = self.contender(row.design.control, row.opponent, row.design.shape.width)
        model = self._build(contender, execution.algorithm)
        reference = self._build(contender, FAMILIES[row.opponent].algorithms[0])
        batch = self._batch(row.design.shape)
        arm = execution.make(model, batch, row.phase)
        return Control(arm, model, reference, batch, row.phase, self.rules)
