"""A launch as a value, and where launches run: on a GPU by Triton, or on anything else with a `run`."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

# Arguments whose values the compiler does not see: one compiled kernel serves every shape, and what is proven of it
# holds for all. Only of TS, the stride of rows, does the compiler know that it is a multiple of sixteen.
UNSPECIALIZED = ["T", "B", "C", "D", "N", "M", "K", "L", "P", "R", "S", "S_2"]

# Parameters of the full model, one pointer of the optimizer's kernel each: the projection, lift, norm, frame and poles
# of two banks, synthesis and head.
MOST_PARAMETERS = 17

# Tensors that a caller may give, which lie anywhere: a part of a batch, a parameter in a buffer with others. One
# compiled kernel serves all of them; what kernels write for each other begins at a multiple of sixteen bytes.
UNALIGNED = [
    "values", "valid", "gate", "project", "taps", "bias", "gain", "frame", "raw_decay", "raw_frequency", "weight",
    "base", "tangent", "base_2", "tangent_2", "raw_decay_2", "raw_frequency_2", "gain_2", "synthesis_scale",
    "feedthrough", "d_project", "d_taps", "d_bias", "d_taps_2", "d_bias_2", "d_head", "d_head_bias", "d_tangent",
    "d_decay", "d_frequency", "d_gain", "d_tangent_2", "d_decay_2", "d_frequency_2", "d_gain_2", "d_synthesis_scale",
    "d_feedthrough", *(f"p_{number}" for number in range(MOST_PARAMETERS)),
]  # fmt: skip
# How every kernel is compiled.
KERNEL = {"do_not_specialize": UNSPECIALIZED, "do_not_specialize_on_alignment": UNALIGNED}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Blocks:
    """How work is divided: block sizes by name, warps per program, and stages of pipelined loops."""

    sizes: Mapping[str, int]
    warps: int = 4
    stages: int = 2


@dataclass(frozen=True)
class Launch:
    """A kernel and everything that it is called with.

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
        """All compile-time arguments by name."""
        return {**self.flags, **self.blocks.sizes}


class Device(Protocol):
    """Something that runs launches."""

    def run(self, launch: Launch) -> None:
        """Run a launch after those of earlier calls."""

    def unavailable_reason(self, home: torch.device) -> str | None:
        """Why launches over tensors that live on `home` cannot run here, or None."""


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

    def unavailable_reason(self, home: torch.device) -> str | None:
        if importlib.util.find_spec("triton") is None:
            return "triton is not installed; on Linux, pip install triton"
        if home.type == "cuda" or (home.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"):
            return None
        return (
            f"the model is on {home.type}; move it to a CUDA device with model.cuda(), or set TRITON_INTERPRET=1 to "
            "interpret the kernels"
        )


class RecordingDevice:
    """A device that runs nothing and keeps a list of the launches that it was given."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def run(self, launch: Launch) -> None:
        self.launches.append(launch)

    def unavailable_reason(self, home: torch.device) -> str | None:  # noqa: ARG002  a list has room for any launch
        return None


_device: ContextVar[Device] = ContextVar("alphabet_triton_device", default=TritonDevice())  # noqa: B039  it has no state


@contextmanager
def on(device: Device) -> Iterator[None]:
    """Send the launches of this block to a device.

    This holds for the current thread. For CUDA tensors autograd runs backward passes in threads of its own, and there
    launches go to Triton.
    """
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which a tensor's CUDA device is torch's current one: Triton launches and graphs record there."""
    return torch.cuda.device(tensor.get_device()) if tensor.is_cuda else nullcontext()


def run(launch: Launch) -> None:
    """Run a launch on the device that `on` has chosen, or else by Triton."""
    _device.get().run(launch)


def recording() -> AbstractContextManager[None]:
    """A context in which nothing runs; if launches are being recorded already, those of this block are too."""
    device = _device.get()
    return on(device if isinstance(device, RecordingDevice) else RecordingDevice())


def record(work: Callable[[], Result]) -> tuple[list[Launch], Result]:
    """The launches of some work, none of which is run, and its result: tensors that nothing was written to."""
    recorder = RecordingDevice()
    with on(recorder):
        result = work()
    return recorder.launches, result
