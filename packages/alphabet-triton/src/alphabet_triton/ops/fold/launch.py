"""How the fold's kernels are called."""

import torch
from torch import Tensor

from alphabet_triton.blocks import FOLD, feature_blocks
from alphabet_triton.buffers import contiguous, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.fold.kernel import fold_bwd_kernel, fold_fwd_kernel


def launch_fold(frame: Tensor, raw_decay: Tensor, raw_frequency: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix (2M, D) and transition (2M,) of a bank's frame (D, 2M), poles (M,) and norm gain (D,)."""
    frame, raw_decay, raw_frequency, gain = contiguous(frame, raw_decay, raw_frequency, gain)
    width, rows = frame.shape
    matrix, transition = frame.new_empty(rows, width), frame.new_empty(rows)
    blocks = feature_blocks(FOLD, width)
    given = {"frame": frame, "raw_decay": raw_decay, "raw_frequency": raw_frequency, "gain": gain}
    run(
        Launch(
            fold_fwd_kernel,
            (tiles(rows // 2, blocks.sizes["BM"]),),
            {**given, "matrix": matrix, "transition": transition},
            {"D": width, "M": rows // 2},
            blocks,
        )
    )
    return matrix, transition


def launch_fold_backward(
    frame: Tensor, raw_decay: Tensor, raw_frequency: Tensor, gain: Tensor, d_matrix: Tensor, d_transition: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """d_frame (D, 2M), d_decay and d_frequency (M,), and d_gain (D,) of d_matrix (2M, D) and d_transition (2M,)."""
    frame, raw_decay, raw_frequency, gain = contiguous(frame, raw_decay, raw_frequency, gain)
    width, rows = frame.shape
    blocks = feature_blocks(FOLD, width)
    grid = (tiles(rows // 2, blocks.sizes["BM"]),)
    d_frame, d_decay, d_frequency = (torch.empty_like(t) for t in (frame, raw_decay, raw_frequency))
    d_gain = frame.new_empty(grid[0], width)
    given = {"frame": frame, "raw_decay": raw_decay, "raw_frequency": raw_frequency, "gain": gain}
    grads = {"d_matrix": d_matrix, "d_transition": d_transition}
    found = {"d_frame": d_frame, "d_decay": d_decay, "d_frequency": d_frequency, "d_gain": d_gain}
    run(Launch(fold_bwd_kernel, grid, {**given, **grads, **found}, {"D": width, "M": rows // 2}, blocks))
    return d_frame, d_decay, d_frequency, d_gain.sum(0)
