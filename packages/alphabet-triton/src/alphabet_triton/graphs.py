"""Work recorded once and replayed: what a shape's second call costs is one launch of a graph."""

from collections.abc import Callable
from typing import Protocol

import torch
from alphabet_core import AlphabetError
from torch import Tensor

Run = Callable[[], None]
WARM_UPS = 3


class Capture(Protocol):
    """How work becomes something to replay."""

    def __call__(self, run: Run, changed: list[Tensor]) -> Run:
        """Something that does what `run` does; `changed` are tensors that it changes, and are as they were."""


def run_eagerly(run: Run, changed: list[Tensor]) -> Run:  # noqa: ARG001  nothing runs before it should
    """No recording: every call launches."""
    return run


def capture_graph(run: Run, changed: list[Tensor]) -> Run:
    """Warm up on a side stream, where kernels are compiled and loaded, then record into a CUDA graph."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            warm_up(run, changed)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
    except RuntimeError as error:
        raise AlphabetError(
            f"a CUDA graph could not be captured: {error}. Pass capture=run_eagerly (alphabet_triton.graphs), which "
            "needs none"
        ) from error
    replay: Run = graph.replay
    return replay


def warm_up(run: Run, changed: list[Tensor]) -> None:
    """Run a few times, and take back what that changed."""
    before = [tensor.detach().clone() for tensor in changed]
    for _ in range(WARM_UPS):
        run()
    restore(changed, before)


@torch.no_grad()
def restore(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Make tensors what they were."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
