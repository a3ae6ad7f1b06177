"""How the terminal reader's kernels are called."""

import torch
from alphabet_core.fused import MOMENTS
from torch import Tensor

from alphabet_triton.blocks import READER, READER_BWD, READER_MASKED, feature_blocks
from alphabet_triton.buffers import TAPS, contiguous, prepare_masks, sum_over_programs, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.lift.launch import launch_norm_backward, launch_outer_backward
from alphabet_triton.ops.reader.kernel import reader_bwd_kernel, reader_fwd_kernel
from alphabet_triton.ops.scan.launch import launch_scan_backward


def launch_reader(
    *,
    lifted: Tensor,
    scale: Tensor,
    local: Tensor,
    ends: Tensor,
    transition: Tensor,
    valid: Tensor | None,
    synthesis: Tensor,
    through: Tensor,
    taps: Tensor,
    bias: Tensor,
    matrix: Tensor,
    transition_2: Tensor,
    length: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tensors states (B, 2M, T), parts (B, chunks, 7, M), pre (B, D, T), scale (B, T), local and ends.

    lifted, scale, local and ends are those of `launch_edge`; local and ends of the cascaded bank are returned.
    states and parts, the chunks' moment sums, are those of the direct bank, pre and scale are the cascaded bank's.
    States and scale are written only with `keep`, pre also for wide models.
    """
    synthesis, through, taps, bias, matrix = contiguous(synthesis, through, taps, bias, matrix)
    (batch, width, stride), rows, chunks = lifted.shape, len(matrix), ends.shape[2]
    masked, (mask,) = prepare_masks(lifted, valid)
    blocks = feature_blocks(READER_MASKED if masked else READER, width)
    wide = width > blocks.sizes["BD"]
    states, scale_2 = (torch.empty_like(local), torch.empty_like(scale)) if keep else (local, scale)
    pre = torch.empty_like(lifted) if keep or wide else lifted
    parts = lifted.new_empty(batch, chunks, MOMENTS, rows // 2)
    local_2, ends_2 = torch.empty_like(local), torch.empty_like(ends)
    features = {"lifted": lifted, "scale": scale, "local": local, "ends": ends, "transition": transition, "valid": mask}
    weights = {"synthesis": synthesis, "through": through, "taps": taps, "bias": bias, "matrix": matrix}
    found = {"states": states, "sums": parts, "pre": pre, "scale_2": scale_2, "local_2": local_2, "ends_2": ends_2}
    run(
        Launch(
            reader_fwd_kernel,
            (chunks * batch,),
            {**features, **weights, "transition_2": transition_2, **found},
            {"T": length, "TS": stride, "D": width, "M": rows // 2},
            blocks,
            {"MASKED": masked, "KEEP": keep, "WIDE": wide},
        )
    )
    return states, parts, pre, scale_2, local_2, ends_2


def launch_reader_rows(
    lifted: Tensor,
    scale: Tensor,
    states: Tensor,
    valid: Tensor | None,
    synthesis: Tensor,
    through: Tensor,
    taps: Tensor,
    length: int,
    d_pre: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """d_stream and d_lifted (B, D, T), d_scale (B, T) and d_states (B, 2M, T) from d_pre (B, D, T).

    Then rows (R, D, 7) for taps, bias and through, one of each program.
    """
    synthesis, through, taps = contiguous(synthesis, through, taps)
    batch, width, stride = lifted.shape
    masked, (mask,) = prepare_masks(lifted, valid)
    blocks = feature_blocks(READER_BWD, width)
    grid = (tiles(length, blocks.sizes["BT"]) * batch,)
    d_stream, d_lifted, d_scale, d_states = (torch.empty_like(t) for t in (lifted, lifted, scale, states))
    d_weights = lifted.new_empty(*grid, width, TAPS + 2)
    features = {"d_pre": d_pre, "lifted": lifted, "scale": scale, "states": states, "valid": mask}
    weights = {"synthesis": synthesis, "through": through, "taps": taps}
    found = {"d_stream": d_stream, "d_lifted": d_lifted, "d_scale": d_scale, "d_states": d_states}
    run(
        Launch(
            reader_bwd_kernel,
            grid,
            {**features, **weights, **found, "d_weights": d_weights},
            {"T": length, "TS": stride, "D": width, "N": states.shape[1]},
            blocks,
            {"MASKED": masked, "WIDE": width > blocks.sizes["BD"]},
        )
    )
    return d_stream, d_lifted, d_scale, d_states, d_weights


def launch_reader_backward(
    lifted: Tensor,
    scale: Tensor,
    states: Tensor,
    valid: Tensor | None,
    synthesis: Tensor,
    through: Tensor,
    taps: Tensor,
    matrix: Tensor,
    transition: Tensor,
    length: int,
    pre: Tensor,
    scale_2: Tensor,
    states_2: Tensor,
    d_sums: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients d_lifted, d_scale, d_states, d_synthesis, d_through, d_taps, d_bias, d_matrix and d_transition.

    Each has the shape of what it is the gradient of.
    """
    (matrix,) = contiguous(matrix)
    d_drive, d_transition = launch_scan_backward(states_2, transition, valid, valid, length, d_sums, None)
    d_matrix = launch_outer_backward(length, d_drive, pre, scale_2)
    d_pre = launch_norm_backward(
        length=length, valid=valid, matrix=matrix, pre=pre, scale=scale_2, d_drive=d_drive, others=None
    )
    d_stream, d_lifted, d_scale, d_states, d_weights = launch_reader_rows(
        lifted, scale, states, valid, synthesis, through, taps, length, d_pre
    )
    d_synthesis = launch_outer_backward(length, d_stream, states, None)
    d_taps, d_bias, d_through = sum_over_programs(d_weights, TAPS, 1, 1)
    return (
        d_lifted, d_scale, d_states, d_synthesis, d_through.squeeze(1), d_taps, d_bias.squeeze(1), d_matrix,
        d_transition,
    )  # fmt: skip
