"""How the scan's kernels are called."""

import torch
from alphabet_core.fused import MOMENTS
from torch import Tensor

from alphabet_triton.blocks import SCAN, SCAN_BWD, scan_blocks
from alphabet_triton.buffers import LAG_COUNT, prepare_masks, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.scan.kernel import scan_bwd_kernel, scan_fwd_kernel


def launch_scan(
    drive: Tensor,
    transition: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    length: int,
    *,
    store: bool,
    count: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """States (B, 2M, T), sums (B, 7, M) in float64 and counts (B, 4).

    States are written only with `store`, counts only with `count`.
    """
    (batch, _, stride), modes = drive.shape, len(transition) // 2
    sums = drive.new_empty(batch, MOMENTS, modes, dtype=torch.float64)
    counts = drive.new_empty(batch, LAG_COUNT, dtype=torch.int32)
    states = torch.empty_like(drive) if store else drive
    masked, (mask, open_) = prepare_masks(drive, valid, gate)
    blocks = scan_blocks(SCAN, modes)
    given = {"drive": drive, "transition": transition, "valid": mask, "gate": open_}
    run(
        Launch(
            scan_fwd_kernel,
            (batch, tiles(modes, blocks.sizes["BM"])),
            {**given, "states": states, "sums": sums, "counts": counts},
            {"T": length, "TS": stride, "M": modes},
            blocks,
            {"MASKED": masked, "STORE": store, "COUNT": count},
        )
    )
    return states, sums, counts


def launch_scan_adjoint(
    states: Tensor,
    transition: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    length: int,
    d_sums: Tensor,
    d_states: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """d_drive (B, 2M, T) and d_transition (B, 2M) from d_sums and, if anything else read the states, d_states."""
    (batch, rows, stride), modes = states.shape, len(transition) // 2
    d_drive, d_transition = torch.empty_like(states), states.new_empty(batch, rows)
    masked, (mask, open_) = prepare_masks(states, valid, gate)
    blocks = scan_blocks(SCAN_BWD, modes)
    saved = {"states": states, "transition": transition, "valid": mask, "gate": open_}
    grads = {"d_sums": d_sums, "d_states": states if d_states is None else d_states}
    run(
        Launch(
            scan_bwd_kernel,
            (batch, tiles(modes, blocks.sizes["BM"])),
            {**saved, **grads, "d_drive": d_drive, "d_transition": d_transition},
            {"T": length, "TS": stride, "M": modes},
            blocks,
            {"MASKED": masked, "ALONE": d_states is None},
        )
    )
    return d_drive, d_transition


def launch_scan_backward(
    states: Tensor,
    transition: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    length: int,
    d_sums: Tensor,
    d_states: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """d_drive (B, 2M, T) and d_transition (2M,) from d_sums and, if anything else read the states, d_states."""
    d_drive, d_transition = launch_scan_adjoint(states, transition, valid, gate, length, d_sums, d_states)
    return d_drive, d_transition.sum(0)
