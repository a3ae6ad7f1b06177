"""How the AdamW kernel is called."""

from torch import Tensor

from alphabet_triton.blocks import ADAMW
from alphabet_triton.buffers import tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.adamw.kernel import adamw_kernel


def launch_adamw(
    *, moved: Tensor, grads: Tensor, clipped: Tensor, average: Tensor, square: Tensor, step: Tensor, settings: Tensor
) -> None:
    """Update moved, average and square (N,) in place by step number `step` (1,); clipped (N,) gradients are written.

    settings (6,) in float64: those of `AdamWSettings` in their order, then the clip norm
    """
    state = {"moved": moved, "grads": grads, "clipped": clipped, "average": average, "square": square}
    grid = (tiles(len(moved), ADAMW.sizes["BN"]),)
    run(Launch(adamw_kernel, grid, {**state, "step": step, "settings": settings}, {"N": len(moved)}, ADAMW))
