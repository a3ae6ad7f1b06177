"""How a family can be executed: each of its exact algorithms, eagerly, compiled, or recorded in a CUDA graph."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from alphabet_baselines import FAMILIES
from alphabet_core import TrainingStep
from alphabet_core.fused import Capture, capture_graph, restore
from torch import Tensor, nn

from alphabet_audit.clock import Arm
from alphabet_audit.designs import INFERENCE

# Dynamo unrolls a loop over tokens and compiles it token by token, for minutes.
LOOPS = ("adjoint", "sequential")
Batch = tuple[Tensor, Tensor]
Make = Callable[[nn.Module, Batch, str], Arm]


@dataclass(frozen=True)
class Execution:
    """An algorithm of a family and what makes an arm of it."""

    algorithm: str
    manner: str
    make: Make

    @property
    def name(self) -> str:
        """As evidence and report call it."""
        return self.algorithm if self.manner == "eager" else f"{self.algorithm}, {self.manner}"


def run_eagerly(model: nn.Module, batch: Batch, phase: str) -> Arm:
    """A forward pass without gradients, or a complete step."""
    values, targets = batch
    if phase != INFERENCE:
        step = TrainingStep(model)
        return lambda: step(values, targets)

    def infer() -> object:
        with torch.no_grad():
            return model(values)

    return infer


def run_compiled(model: nn.Module, batch: Batch, phase: str) -> Arm:
    """The same with torch.compile's code for forward and backward."""
    torch._dynamo.reset()  # or the family before this one counts against the limit of recompilations
    compiled = torch.compile(model)
    assert isinstance(compiled, nn.Module)
    return run_eagerly(compiled, batch, phase)


def run_graph(model: nn.Module, batch: Batch, phase: str, capture: Capture = capture_graph) -> Arm:
    """The same recorded once in a CUDA graph, with its result where the graph leaves it. Not yet run on a GPU."""
    tensors = [*model.parameters(), *model.buffers()]
    before = [tensor.detach().clone() for tensor in tensors]
    result: list[Tensor] = []
    if phase == INFERENCE:
        arm, forget = run_eagerly(model, batch, phase), no_state
    else:
        step = TrainingStep(model)
        step.optimizer.param_groups[0]["capturable"] = batch[0].is_cuda  # its count of steps is on the device
        arm, forget = (lambda: step(*batch)), (lambda: clear_state(step.optimizer))

    def run() -> None:
        found = arm()
        assert isinstance(found, Tensor)
        result[:] = [found]

    replay = capture(run, [])
    restore([tensor.detach() for tensor in tensors], before)
    forget()

    def call() -> object:
        replay()
        return result[0]

    return call


def no_state() -> None:
    """Inference leaves nothing behind."""


@torch.no_grad()
def clear_state(optimizer: torch.optim.Optimizer) -> None:
    """As before the first step, in the same tensors: AdamW's averages and counts all begin at zero."""
    for state in optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()


def list_executions(family: str, device: str, *, compiled: bool) -> list[Execution]:
    """All that are worth trying on a device. Those that cannot be made there say so when they are tried."""
    manners: dict[str, Make] = {"eager": run_eagerly}
    if compiled or device == "cuda":
        manners["compiled"] = run_compiled
    if device == "cuda":
        manners["graph"] = run_graph
    return [
        Execution(name, manner, make)
        for name in FAMILIES[family].algorithms
        for manner, make in manners.items()
        if manner != "compiled" or name not in LOOPS
    ]
