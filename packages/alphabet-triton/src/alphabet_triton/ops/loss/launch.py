"""How the loss's kernel is called."""

import torch
from torch import Tensor

from alphabet_triton.blocks import loss_blocks
from alphabet_triton.buffers import contiguous, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.loss.kernel import loss_kernel

# The losses of `alphabet_core.LOSSES` that the kernel knows, as its switches.
LOSS_FLAGS = {
    "cross_entropy": {"CLASSES": True, "SQUARED": False},
    "multilabel": {"CLASSES": False, "SQUARED": False},
    "mse": {"CLASSES": False, "SQUARED": True},
}


def launch_loss(
    loss: str, logits: Tensor, targets: Tensor, sums: Tensor, sums_2: Tensor, counts: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses (B,), d_logits (.., B, K), d_sums and d_sums_2 (B, 7, M) of the mean loss of logits (B, K).

    Of d_logits every part of the poles writes its own, all alike.
    """
    (weight,) = contiguous(weight)
    (batch, outputs), modes = logits.shape, sums.shape[2]
    blocks = loss_blocks(modes, outputs)
    parts = tiles(2 * modes, blocks.sizes["BN"])
    losses, d_logits = logits.new_empty(batch), logits.new_empty(parts, batch, outputs)
    d_sums, d_sums_2 = torch.empty_like(sums), torch.empty_like(sums_2)
    given = {"logits": logits, "targets": targets, "sums": sums, "sums_2": sums_2, "counts": counts, "weight": weight}
    run(
        Launch(
            loss_kernel,
            (batch, parts),
            {**given, "losses": losses, "d_logits": d_logits, "d_sums": d_sums, "d_sums_2": d_sums_2},
            {"B": batch, "M": modes, "K": outputs},
            blocks,
            LOSS_FLAGS[loss],
        )
    )
    return losses, d_logits, d_sums, d_sums_2
