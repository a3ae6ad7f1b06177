"""How the head's kernels are called."""

import torch
from alphabet_core.fused import MOMENTS
from torch import Tensor

from alphabet_triton.blocks import head_blocks, head_bwd_blocks
from alphabet_triton.buffers import LAG_COUNT, contiguous, prepare_masks, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.head.backward import head_bwd_kernel
from alphabet_triton.ops.head.kernel import head_fwd_kernel


def launch_head(
    *,
    parts: Tensor,
    local: Tensor,
    ends: Tensor,
    transition: Tensor,
    valid: Tensor | None,
    tickets: Tensor,
    weight: Tensor,
    bias: Tensor,
    width: int,
    length: int,
    keep: bool,
    logits: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Logits (B, K), descriptor (B, 2, M, 7), sums and sums_2 (B, 7, M), counts (B, 4) and states (B, 2M, T).

    parts (B, chunks, 7, M) are the direct bank's moment sums; local, ends and the states are the cascaded bank's, and
    tickets (B,) are zero. States are written only with `keep`; the logits are written to `logits` if that is given.
    """
    weight, bias = contiguous(weight, bias)
    (batch, rows, stride), chunks, outputs = local.shape, ends.shape[2], len(bias)
    modes = rows // 2
    parts_2, counts_of_chunks = torch.empty_like(parts), parts.new_empty(batch, chunks, LAG_COUNT, dtype=torch.int32)
    states = torch.empty_like(local) if keep else local
    sums, sums_2 = (parts.new_empty(batch, MOMENTS, modes) for _ in range(2))
    counts = parts.new_empty(batch, LAG_COUNT, dtype=torch.int32)
    descriptor = parts.new_empty(batch, 2, modes, MOMENTS)
    logits = parts.new_empty(batch, outputs) if logits is None else logits
    masked, (mask,) = prepare_masks(parts, valid)
    given = {"parts": parts, "local": local, "ends": ends, "transition": transition, "valid": mask}
    shared = {"tickets": tickets, "parts_2": parts_2, "counts_of_chunks": counts_of_chunks}
    found = {"states": states, "sums": sums, "sums_2": sums_2, "counts": counts}
    run(
        Launch(
            head_fwd_kernel,
            (chunks * batch,),
            {**given, "weight": weight, "bias": bias, **shared, **found, "descriptor": descriptor, "logits": logits},
            {"T": length, "TS": stride, "M": modes, "K": outputs},
            head_blocks(width),
            {"MASKED": masked, "KEEP": keep},
        )
    )
    return logits, descriptor, sums, sums_2, counts, states


def launch_head_backward(
    sums: Tensor, sums_2: Tensor, counts: Tensor, weight: Tensor, descriptor: Tensor, d_logits: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """d_sums and d_sums_2 (B, 7, M), d_weight (K, 14 M) and d_bias (K,) of d_logits (B, K)."""
    (weight,) = contiguous(weight)
    batch, _, modes = sums.shape
    outputs = len(weight)
    d_sums, d_sums_2 = torch.empty_like(sums), torch.empty_like(sums_2)
    blocks = head_bwd_blocks(modes, outputs)
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
