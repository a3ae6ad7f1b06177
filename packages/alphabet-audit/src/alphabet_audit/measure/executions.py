"""The executions of a family: each of its exact algorithms run eagerly, compiled, or recorded in a CUDA graph."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from alphabet_core import TrainingStep
from alphabet_core.fused import Capture, GraphCapture, restore
from torch import Tensor, nn

from alphabet_audit.declare.designs import INFERENCE
from alphabet_audit.declare.executions import COMPILED, EAGER, GRAPH, execution_name, read_executions
from alphabet_audit.measure.clock import Call

Batch = tuple[Tensor, Tensor]
MakeCall = Callable[[nn.Module, Batch, str], Call]


@dataclass(frozen=True)
class Execution:
    """An algorithm of a family and how it is run. make: gives the call that is timed, for a model, batch and phase."""

    algorithm: str
    mode: str
    make: MakeCall

    @property
    def name(self) -> str:
        """The execution's name in evidence and reports."""
        return execution_name(self.algorithm, self.mode)


def run_eagerly(model: nn.Module, batch: Batch, phase: str) -> Call:
    """A call that runs a forward pass without gradients, or a complete step, operation by operation."""
    values, targets = batch
    if phase != INFERENCE:
        step = TrainingStep(model)
        return lambda: step(values, targets)

    def infer() -> object:
        with torch.no_grad():
            return model(values)

    return infer


def run_compiled(model: nn.Module, batch: Batch, phase: str) -> Call:
    """A call that runs the same through torch.compile, forward and backward."""
    torch._dynamo.reset()  # or the family before this one counts against the limit of recompilations
    compiled = torch.compile(model)
    assert isinstance(compiled, nn.Module)
    return run_eagerly(compiled, batch, phase)


@dataclass(frozen=True, eq=False)
class RecordedWork:
    """A recording that is replayed by calling it, and owner of everything that the recording addresses."""

    replay: Call
    run: Call
    result: list[Tensor]
    tensors: list[Tensor]
    batch: Batch
    step: TrainingStep | None

    def __call__(self) -> Tensor:
        self.replay()
        return self.result[0]


def run_graph(model: nn.Module, batch: Batch, phase: str, capture: Capture | None = None) -> Call:
    """A call that replays the same from a CUDA graph and returns its result. It has not run on a GPU yet.

    By default the graph has a pool of its own, where its result stays. Recording runs the work several times; model and
    optimizer are then set back to where they were before.
    """
    tensors = [*model.parameters(), *model.buffers()]
    before = [tensor.detach().clone() for tensor in tensors]
    result: list[Tensor] = []
    step = None if phase == INFERENCE else TrainingStep(model)
    call = run_eagerly(model, batch, phase) if step is None else partial(step, *batch)
    if step is not None:
        step.optimizer.param_groups[0]["capturable"] = batch[0].is_cuda  # its count of steps is on the device

    def run() -> None:
        found = call()
        assert isinstance(found, Tensor)
        result[:] = [found]

    replay = (capture or GraphCapture())(run, [])
    # A graph addresses tensors without owning them: gradients, optimizer state, batch and result live as long as this.
    recorded = RecordedWork(replay, run, result, tensors, batch, step)
    restore([tensor.detach() for tensor in tensors], before)
    if step is not None:
        clear_state(step.optimizer)

    return recorded


@torch.no_grad()
def clear_state(optimizer: torch.optim.Optimizer) -> None:
    """Set AdamW's averages and counts back to zero, where they begin, in the tensors that a graph has recorded."""
    for state in optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()


MAKERS: dict[str, MakeCall] = {EAGER: run_eagerly, COMPILED: run_compiled, GRAPH: run_graph}


def list_executions(family: str, device: str, *, compiled: bool) -> list[Execution]:
    """The declared executions of a family on a device; one that cannot run there says so when tried."""
    table = read_executions()
    wanted = table.names(family, device, compiled=compiled)
    found = [
        Execution(algorithm, mode, MAKERS[mode])
        for algorithm in table.algorithms[family]
        for mode in table.modes(device, compiled=compiled)
    ]
    return [execution for execution in found if execution.name in wanted]
