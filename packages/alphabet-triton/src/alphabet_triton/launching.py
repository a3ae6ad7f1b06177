"""A launch as a value, and where launches go: to a GPU by Triton, or to anything else with a `run`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

# Sizes that kernels are not compiled anew for: one shape's kernel is every shape's, and what is proven of it holds.
# Only TS, the rows' stride, is known to be a multiple of sixteen.
UNSPECIALIZED = ["T", "C", "D", "N", "M", "K", "L", "R"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Blocks:
    """How a kernel is cut: its block sizes by name, warps per program, and stages of its pipelined loops."""

    sizes: Mapping[str, int]
    warps: int = 4
    stages: int = 2


@dataclass(frozen=True)
class Launch:
    """One kernel with everything that it is called with.

    tensors, scalars: run-time arguments by name; flags: compile-time switches; blocks: compile-time sizes
    """

    kernel: Any
    grid: tuple[int, ...]
    tensors: Mapping[str, Tensor]
    scalars: Mapping[str, int]
    blocks: Blocks
    flags: Mapping[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)

    @property
    def constants(self) -> dict[str, int | bool]:
        """All compile-time arguments."""
        return {**self.flags, **self.blocks.sizes}


class Device(Protocol):
    """Where kernels run."""

    def run(self, launch: Launch) -> None:
        """Run it, in the order of the calls."""


class TritonDevice:
    """The device that Triton launches on: the current CUDA stream, or with TRITON_INTERPRET=1 its interpreter."""

    def run(self, launch: Launch) -> None:
        launch.kernel[launch.grid](
            **launch.tensors,
            **launch.scalars,
            **launch.constants,
            num_warps=launch.blocks.warps,
            num_stages=launch.blocks.stages,
        )


class Recorder:
    """A device that runs nothing and remembers what it was asked to run."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def run(self, launch: Launch) -> None:
        self.launches.append(launch)


_device: ContextVar[Device] = ContextVar("alphabet_triton_device", default=TritonDevice())  # noqa: B039  it has no state


@contextmanager
def on(device: Device) -> Iterator[None]:
    """Send the launches of this block to a device.

    It holds for this thread. Autograd walks back over CUDA tensors in threads of its own, where Triton launches.
    """
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def at_home_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Make a tensor's CUDA device torch's current one, where Triton launches and streams and graphs are made."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def run(launch: Launch) -> None:
    """Run a launch where this block's launches go."""
    _device.get().run(launch)


def recording() -> AbstractContextManager[None]:
    """Run nothing in this block; launches are remembered where they already were."""
    device = _device.get()
    return on(device if isinstance(device, Recorder) else Recorder())


def record(work: Callable[[], Result]) -> tuple[list[Launch], Result]:
    """The launches of some work, which are not run, and its result: tensors that nothing was written to."""
    recorder = Recorder()
    with on(recorder):
        result = work()
    return recorder.launches, result
