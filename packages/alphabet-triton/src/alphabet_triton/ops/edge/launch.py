"""How the edge's kernels are called."""

import torch
from torch import Tensor

from alphabet_triton.blocks import EDGE, EDGE_BWD, EDGE_BWD_VALUES, EDGE_MASKED, feature_blocks
from alphabet_triton.buffers import TAPS, contiguous, prepare_masks, row_stride, sum_over_programs, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.edge.kernel import edge_bwd_kernel, edge_fwd_kernel
from alphabet_triton.ops.lift.launch import launch_norm_backward, launch_outer_backward


def launch_edge(
    values: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    *,
    project: Tensor,
    taps: Tensor,
    bias: Tensor,
    matrix: Tensor,
    transition: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tensors pre and lifted (B, D, T), scale (B, T), local (B, 2M, T), ends (B, 2M, chunks) and tickets (B,).

    values are (B, T, C). local and ends are the direct bank's states in chunks that begin at zero, and each chunk's
    last; tickets are zeros for the head. pre, what the SiLU is applied to, is written only with `keep`.
    """
    values, project, taps, bias, matrix = contiguous(values, project, taps, bias, matrix)
    (batch, length, channels), (rows, width) = values.shape, matrix.shape
    stride = row_stride(length)
    masked, (mask, open_) = prepare_masks(values, valid, gate)
    blocks = feature_blocks(EDGE_MASKED if masked else EDGE, width)
    chunks = tiles(length, blocks.sizes["BT"])
    lifted, scale = values.new_empty(batch, width, stride), values.new_empty(batch, stride)
    local, ends = values.new_empty(batch, rows, stride), values.new_empty(batch, rows, chunks)
    tickets = values.new_empty(batch, dtype=torch.int32)
    pre = torch.empty_like(lifted) if keep else lifted
    given = {"values": values, "valid": mask, "gate": open_}
    weights = {"project": project, "taps": taps, "bias": bias, "matrix": matrix, "transition": transition}
    found = {"pre": pre, "lifted": lifted, "scale": scale, "local": local, "ends": ends, "tickets": tickets}
    run(
        Launch(
            edge_fwd_kernel,
            (chunks * batch,),
            {**given, **weights, **found},
            {"T": length, "TS": stride, "C": channels, "D": width, "M": rows // 2},
            blocks,
            {"MASKED": masked, "KEEP": keep, "WIDE": width > blocks.sizes["BD"]},
        )
    )
    return pre, lifted, scale, local, ends, tickets


def launch_edge_rows(
    values: Tensor, valid: Tensor | None, project: Tensor, taps: Tensor, d_pre: Tensor, *, want_values: bool
) -> tuple[Tensor, Tensor]:
    """Rows (P, D, 6 + C) for taps, bias and project, one of each program, from d_pre (B, D, T).

    With `want_values` also d_values (B, parts, T, C) of the features' parts; else the values take their place.
    """
    values, project, taps = contiguous(values, project, taps)
    (batch, length, channels), width = values.shape, len(taps)
    masked, (mask,) = prepare_masks(values, valid)
    blocks = feature_blocks(EDGE_BWD_VALUES if want_values else EDGE_BWD, width)
    rows, parts = tiles(length, blocks.sizes["BT"]) * batch, tiles(width, blocks.sizes["BD"])
    d_values = values.new_empty(batch, parts, length, channels) if want_values else values
    d_weights = values.new_empty(rows, width, TAPS + 1 + channels)
    saved = {"d_pre": d_pre, "values": values, "valid": mask, "project": project, "taps": taps}
    run(
        Launch(
            edge_bwd_kernel,
            (rows * parts,),
            {**saved, "d_values": d_values, "d_weights": d_weights},
            {"T": length, "TS": row_stride(length), "C": channels, "D": width},
            blocks,
            {"MASKED": masked, "VALUES": want_values},
        )
    )
    return d_weights, d_values


def launch_edge_backward(
    values: Tensor,
    valid: Tensor | None,
    project: Tensor,
    taps: Tensor,
    matrix: Tensor,
    pre: Tensor,
    scale: Tensor,
    d_lifted: Tensor,
    d_scale: Tensor,
    d_drive: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients d_values (B, T, C), d_project (D, C), d_taps (D, 5), d_bias (D,) and d_matrix (2M, D)."""
    (matrix,) = contiguous(matrix)
    length, channels = values.shape[1:]
    d_matrix = launch_outer_backward(length, d_drive, pre, scale)
    d_pre = launch_norm_backward(
        length=length, valid=valid, matrix=matrix, pre=pre, scale=scale, d_drive=d_drive, others=(d_lifted, d_scale)
    )
    d_weights, d_values = launch_edge_rows(values, valid, project, taps, d_pre, want_values=True)
    d_taps, d_bias, d_project = sum_over_programs(d_weights, TAPS, 1, channels)
    found = d_values.squeeze(1) if d_values.shape[1] == 1 else d_values.sum(1)
    return found, d_project, d_taps, d_bias.squeeze(1), d_matrix
