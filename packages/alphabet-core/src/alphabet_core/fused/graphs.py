"""Work recorded once into a CUDA graph and replayed: a later call costs one launch. Not yet run on a GPU."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from alphabet_core.errors import AlphabetError

Run = Callable[[], None]
WARM_UPS = 3


class Capture(Protocol):
    """A function that turns work into something that can be replayed."""

    def __call__(self, run: Run, changed: list[Tensor]) -> Run:
        """A function that does what `run` does; the tensors in `changed`, which `run` writes, keep their values."""


def run_eagerly(run: Run, changed: list[Tensor]) -> Run:  # noqa: ARG001  nothing runs before it should
    """The work itself: nothing is recorded, and every call launches."""
    return run


def capture_graph(run: Run, changed: list[Tensor]) -> Run:
    """A replay of a CUDA graph, recorded after warming up on a side stream, where kernels are compiled and loaded."""
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
            f"a CUDA graph could not be captured: {error}. Pass capture=run_eagerly (alphabet_core.fused), which "
            "needs none"
        ) from error
    replay: Run = graph.replay
    return replay


def warm_up(run: Run, changed: list[Tensor]) -> None:
    """Run some work a few times, then undo what it changed."""
    before = [tensor.detach().clone() for tensor in changed]
    for _ in range(WARM_UPS):
        run()
    restore(changed, before)


@torch.no_grad()
def restore(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Copy earlier values back into the tensors that held them."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
