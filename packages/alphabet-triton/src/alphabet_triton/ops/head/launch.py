"""How the head's kernels are called."""

import torch
from alphabet_core.fused import MOMENTS
from torch import Tensor

from alphabet_triton.blocks import head_blocks
from alphabet_triton.buffers import contiguous, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.head.kernel import head_bwd_kernel, head_fwd_kernel


def launch_head(
    sums: Tensor, sums_2: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, logits: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (B, K) and descriptor (B, 2, M, 7) of moment sums (B, 7, M) of either bank over counts (B, 4).

    The logits are written to `logits` if that is given.
    """
    weight, bias = contiguous(weight, bias)
    batch, _, modes = sums.shape
    outputs = len(bias)
    descriptor = weight.new_empty(batch, 2, modes, MOMENTS)
    logits = weight.new_empty(batch, outputs) if logits is None else logits
    blocks = head_blocks(modes, outputs)
    given = {"sums": sums, "sums_2": sums_2, "counts": counts, "weight": weight, "bias": bias}
    run(
        Launch(
            head_fwd_kernel,
            (batch, tiles(outputs, blocks.sizes["BK"])),
            {**given, "descriptor": descriptor, "logits": logits},
            {"M": modes, "K": outputs},
            blocks,
            {"WIDE": 2 * modes > blocks.sizes["BN"]},
        )
    )
    return logits, descriptor


def launch_head_backward(
    sums: Tensor, sums_2: Tensor, counts: Tensor, weight: Tensor, descriptor: Tensor, d_logits: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """d_sums and d_sums_2 (B, 7, M), d_weight (K, 14 M) and d_bias (K,) of d_logits (B, K)."""
    (weight,) = contiguous(weight)
    batch, _, modes = sums.shape
    outputs = len(weight)
    d_sums, d_sums_2 = torch.empty_like(sums), torch.empty_like(sums_2)
    blocks = head_blocks(modes, outputs)
    given = {"sums": sums, "sums_2": sums_2, "counts": counts, "weight": weight, "d_logits": d_logits}
    run(
        Launch(
            head_bwd_kernel,
            (batch, tiles(2 * modes, blocks.sizes["BN"])),
            {**given, "d_sums": d_sums, "d_sums_2": d_sums_2},
            {"M": modes, "K": outputs},
            blocks,
        )
    )
    # In float64, which neither autocast nor TF32 touches.
    d_weight = (d_logits.double().mT @ descriptor.flatten(1).double()).float()
    return d_sums, d_sums_2, d_weight, d_logits.sum(0)
