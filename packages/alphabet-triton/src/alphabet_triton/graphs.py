"""What a runtime that records CUDA graphs refuses. Not yet run on a GPU."""

import torch
from alphabet_core import AlphabetError


def refuse_inside_capture(name: str) -> None:
    """Raise where somebody else's graph is being captured on the current stream of a CUDA device, which there is."""
    if torch.cuda.is_current_stream_capturing():
        raise AlphabetError(
            f"{name} was called while a CUDA graph is being captured, and cannot replay its own graph inside another: "
            "pass capture=run_eagerly (alphabet_core.fused), and your graph records the kernels themselves"
        )
