"""How the tail's kernel is called."""

from torch import Tensor

from alphabet_triton.blocks import ADAMW
from alphabet_triton.buffers import tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.adamw.kernel import adamw_kernel


def launch_adamw(
    params: Tensor, grads: Tensor, clipped: Tensor, average: Tensor, square: Tensor, step: Tensor, settings: Tensor
) -> None:
    """Move params, average and square (N,) in place, after `step` steps with this one; clipped (N,) is written."""
    state = {"params": params, "grads": grads, "clipped": clipped, "average": average, "square": square}
    grid = (tiles(len(params), ADAMW.sizes["BN"]),)
    run(Launch(adamw_kernel, grid, {**state, "step": step, "settings": settings}, {"N": len(params)}, ADAMW))
