"""A run of launches recorded once and replayed: what a shape's second call costs is one launch of a graph."""

from collections.abc import Callable

import torch
from alphabet_core import AlphabetError

Run = Callable[[], None]
WARM_UPS = 3


def run_eagerly(run: Run) -> Run:
    """No recording: every call launches."""
    return run


def capture_graph(run: Run) -> Run:
    """Warm up on a side stream, where kernels are compiled and loaded, then record into a CUDA graph."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
    except RuntimeError as error:
        raise AlphabetError(
            f"a CUDA graph could not be captured: {error}. TritonRuntime(model, capture=run_eagerly) needs none"
        ) from error
    replay: Run = graph.replay
    return replay
