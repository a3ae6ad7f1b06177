"""Work recorded once into a CUDA graph and replayed: a later call costs one launch. Not yet run on a GPU."""

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

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


class GraphCapture:
    """A `Capture` by CUDA graphs that share one pool of memory.

    What the work allocates while it is recorded lies in the pool, and later recordings use the same memory again. So a
    graph finds nothing there when it begins, and leaves nothing there for anyone: what goes in and out of the work is
    allocated before it is recorded, and graphs of one capture are replayed one after another, on one stream.
    """

    def __init__(self) -> None:
        # A pool ends with the last of its graphs, and its handle with it: it is always asked of a graph that is alive.
        self._graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def __call__(self, run: Run, changed: list[Tensor]) -> Run:
        """A replay of `run`, recorded after warming up on a side stream; the tensors in `changed` keep their values."""
        other = next(iter(self._graphs), None)
        try:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                warm_up(run, changed)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            pool = torch.cuda.graph_pool_handle() if other is None else other.pool()
            # With the default, "global", a thread that pins memory or waits for NCCL would invalidate the recording.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                run()
        except RuntimeError as error:
            what = str(error).partition("\n")[0].rstrip(".")  # CUDA's errors go on with advice for debugging
            raise AlphabetError(
                f"a CUDA graph could not be captured: {what}. Pass capture=run_eagerly (alphabet_core.fused), which "
                "needs none"
            ) from error
        self._graphs.add(graph)
        replay: Run = graph.replay  # which keeps the graph, and the graph its pool
        return replay


def warm_up(run: Run, changed: list[Tensor]) -> None:
    """Run some work a few times, so that kernels are compiled and loaded, then undo what it changed, failed or not."""
    before = [tensor.detach().clone() for tensor in changed]
    try:
        for _ in range(WARM_UPS):
            run()
    finally:
        restore(changed, before)


@torch.no_grad()
def restore(tensors: list[Tensor], values: list[Tensor]) -> None:
    """Copy earlier values back into the tensors that held them."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
