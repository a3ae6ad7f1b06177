"""How the scan's backward is called."""

import torch
from torch import Tensor

from alphabet_triton.blocks import SCAN_BWD, scan_blocks
from alphabet_triton.buffers import prepare_masks, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.scan.kernel import scan_bwd_kernel


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
    (batch, rows, stride), modes = states.shape, states.shape[1] // 2
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
