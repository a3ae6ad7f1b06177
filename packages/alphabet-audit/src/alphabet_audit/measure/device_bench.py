"""The bench of a real device: ALPHABET's arms by the device's fused runtime, a family's by its executions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from alphabet_baselines import FAMILIES, build
from alphabet_core import RECIPES, Alphabet, TrainingStep, value_checks
from torch import Tensor, nn

from alphabet_audit.declare.cases import Case, design_case
from alphabet_audit.declare.declarations import Declarations
from alphabet_audit.declare.designs import ALPHABET, INFERENCE, Design, Row, Shape
from alphabet_audit.declare.quantities import PHASE_GATES
from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.errors import printable
from alphabet_audit.evidence.schema import TRIAL_SAMPLES
from alphabet_audit.gates import run_case
from alphabet_audit.gates.comparing import require_fused
from alphabet_audit.gates.runtimes import Runtime
from alphabet_audit.measure.arms import AlphabetArm, Beginning, FamilyArm
from alphabet_audit.measure.candidates import CellCandidate, resolve_candidate
from alphabet_audit.measure.clock import Clock
from alphabet_audit.measure.environment import require_plain_float32
from alphabet_audit.measure.executions import Execution, list_executions
from alphabet_audit.protocol.execution_choice import ExecutionChoice, ExecutionTrial
from alphabet_audit.protocol.outcomes import Outcome
from alphabet_audit.protocol.plan import SEED
from alphabet_audit.protocol.readings import judge

REASON_LENGTH = 300


class DeviceBench:
    """Arms on one device. compiled: whether torch.compile is tried too on a CPU, which takes minutes."""

    def __init__(self, declarations: Declarations, runtime: Runtime, *, compiled: bool = False) -> None:
        self.designs = declarations.designs
        self.rules = declarations.tolerances
        self.runtime = runtime
        self.compiled = compiled
        self._candidates: dict[tuple[str, str, int], CellCandidate] = {}

    @contextmanager
    def session(self) -> Iterator[None]:
        """A context with plain float32, and without checks of input values, which would be timed too."""
        require_plain_float32()
        with value_checks(False):
            yield

    def try_gate(self, case: Case) -> Outcome:
        """The outcome of a parity gate, with input values checked as in a user's call."""
        with value_checks(True):
            return run_case(self.runtime, case, self.rules)

    def try_executions(self, choice: ExecutionChoice, clock: Clock) -> list[ExecutionTrial]:
        """A trial of every execution of a family, at the calibration shape."""
        design = Design(choice.sizing, self.designs.calibration)
        return self.try_executions_at(Row(design, choice.family, choice.phase), clock)

    def try_executions_at(self, row: Row, clock: Clock) -> list[ExecutionTrial]:
        """A trial of every execution of a row's family, at the row's own shape."""
        executions = list_executions(row.family, self.runtime.device, compiled=self.compiled)
        return [self.try_execution(row, execution, clock) for execution in executions]

    def try_execution(self, row: Row, execution: Execution, clock: Clock) -> ExecutionTrial:
        """A trial of one execution: checked, and timed if it agrees with its reference."""
        try:
            arm = self.family_arm(row, execution)
            readings = arm.check()
            if judge(readings) != PASS:
                return ExecutionTrial(execution.name, readings, reason="disagrees with its reference")
            arm.call()
            clock.settle()
            seconds = tuple(clock.measure(arm.call, 1) for _ in range(TRIAL_SAMPLES))
        except Exception as error:
            return ExecutionTrial(execution.name, reason=printable(f"{type(error).__name__}: {error}", REASON_LENGTH))
        return ExecutionTrial(execution.name, readings, seconds)

    def prepare(self, row: Row, execution: str) -> AlphabetArm | FamilyArm:
        """The arm of a row's family by the execution of that name; of a null row, ALPHABET's."""
        if row.family == ALPHABET:
            return self.alphabet_arm(row)
        known = {each.name: each for each in list_executions(row.family, self.runtime.device, compiled=True)}
        return self.family_arm(row, known[execution])

    def candidate(self, sizing: str, family: str, width: int) -> CellCandidate:
        """The candidate that a cell compares; it is looked for once."""
        key = sizing, family, width
        if key not in self._candidates:
            self._candidates[key] = resolve_candidate(self.designs, *key)
        return self._candidates[key]

    def describe_cells(self, designs: tuple[Design, ...]) -> dict[str, dict[str, Any]]:
        """The candidate of every cell with its size, by design and family, as the manifest holds them."""
        return {
            design.key: {
                family: self.candidate(design.sizing, family, design.shape.width).to_record()
                for family in (ALPHABET, *self.designs.families)
            }
            for design in designs
        }

    def alphabet_arm(self, row: Row) -> AlphabetArm:
        """ALPHABET's arm in a row; an error if the runtime would fall back to the reference."""
        shape = row.design.shape
        values, targets = self._batch(shape)
        model = self._build(self.candidate(row.design.sizing, ALPHABET, shape.width))
        assert isinstance(model, Alphabet)
        case = design_case(PHASE_GATES[row.phase], row.design, self.designs.channels, self.designs.outputs)
        if row.phase == INFERENCE:
            inference = self.runtime.infer(model)
            require_fused(inference.path(values))
            return AlphabetArm(lambda: inference(values), self.runtime, case, self.rules, model, (values, targets))
        trainer = self.runtime.train(model, RECIPES["B"])
        require_fused(trainer.path(values))
        assert isinstance(trainer, TrainingStep)
        call = partial(trainer.step, values, targets)
        return AlphabetArm(call, self.runtime, case, self.rules, model, (values, targets), trainer)

    def family_arm(self, row: Row, execution: Execution) -> FamilyArm:
        """The arm of a row's family by an execution."""
        candidate = self.candidate(row.design.sizing, row.family, row.design.shape.width)
        model = self._build(candidate, execution.algorithm)
        reference = self._build(candidate, FAMILIES[row.family].algorithms[0])
        batch = self._batch(row.design.shape)
        beginning = Beginning(model)
        call = execution.make(model, batch, row.phase)
        return FamilyArm(call, model, reference, batch, row.phase, self.rules, beginning)

    def _batch(self, shape: Shape) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(SEED)
        values = torch.randn(shape.batch, shape.length, self.designs.channels, generator=generator)
        targets = torch.arange(shape.batch) % self.designs.outputs
        return values.to(self.runtime.device), targets.to(self.runtime.device)

    def _build(self, candidate: CellCandidate, algorithm: str | None = None) -> nn.Module:
        torch.manual_seed(SEED)
        return build(
            candidate.family,
            channels=self.designs.channels,
            outputs=self.designs.outputs,
            width=candidate.width,
            choice=candidate.choice,
            algorithm=algorithm,
        ).to(self.runtime.device)
