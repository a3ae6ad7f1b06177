"""How the AdamW kernel is called."""

from torch import Tensor

from alphabet_triton.blocks import ADAMW
from alphabet_triton.buffers import tiles
from alphabet_triton.launching import MOST_PARAMETERS, Launch, run
from alphabet_triton.ops.adamw.kernel import adamw_kernel


def launch_adamw(
    parameters: list[Tensor],
    *,
    starts: Tensor,
    grads: Tensor,
    clipped: Tensor,
    average: Tensor,
    square: Tensor,
    steps: Tensor,
    settings: Tensor,
) -> None:
    """Update contiguous parameters, average and square (N,) in place by the step that `steps` counts last.

    starts (18,): where the numbers of each parameter begin among the N, and N itself for those that there are not
    grads, clipped (N,): the gradients, and where they are written once clipped
    settings (6,) in float64: those of `AdamWSettings` in their order, then the clip norm
    """
    filled = [*parameters, *(MOST_PARAMETERS - len(parameters)) * [parameters[-1]]]
    state = {"starts": starts, "grads": grads, "clipped": clipped, "average": average, "square": square}
    run(
        Launch(
            adamw_kernel,
            (tiles(len(grads), ADAMW.sizes["BN"]),),
            {**{f"p_{i}": p for i, p in enumerate(filled)}, **state, "steps": steps, "settings": settings},
            {"N": len(grads)},
            ADAMW,
        )
    )
