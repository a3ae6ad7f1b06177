"""How the backward kernels that both lifts share are called."""

from collections.abc import Mapping

from torch import Tensor

from alphabet_triton.blocks import NORM_BWD, OUTER_BWD, feature_blocks
from alphabet_triton.buffers import prepare_masks, tiles
from alphabet_triton.launching import Launch, run
from alphabet_triton.ops.lift.backward import norm_bwd_kernel, outer_bwd_kernel, products_bwd_kernel


def launch_norm_backward(
    *,
    length: int,
    valid: Tensor | None,
    matrix: Tensor,
    pre: Tensor,
    scale: Tensor,
    d_drive: Tensor,
    others: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """d_pre (B, D, T) from d_drive (B, 2M, T).

    others: d_lifted (B, D, T) and d_scale (B, T), if anything but the drive read features and scale
    """
    batch, width, stride = pre.shape
    d_pre = pre.new_empty(pre.shape)
    d_lifted, d_scale = others or (pre, scale)
    masked, (mask,) = prepare_masks(pre, valid)
    blocks = feature_blocks(NORM_BWD, width)
    saved = {"pre": pre, "scale": scale, "valid": mask, "matrix": matrix}
    run(
        Launch(
            norm_bwd_kernel,
            (tiles(length, blocks.sizes["BT"]) * batch,),
            {**saved, "d_lifted": d_lifted, "d_scale": d_scale, "d_drive": d_drive, "d_pre": d_pre},
            {"T": length, "TS": stride, "D": width, "N": len(matrix)},
            blocks,
            {"MASKED": masked, "ALONE": others is None, "WIDE": width > blocks.sizes["BD"]},
        )
    )
    return d_pre


def launch_outer_backward(length: int, left: Tensor, right: Tensor, scale: Tensor | None) -> Tensor:
    """The sum (L, R) over batch and time of left (B, L, T) times right (B, R, T).

    With a scale (B, T), right is replaced by scale times the SiLU of right.
    """
    (batch, rows, stride), columns = left.shape, right.shape[1]
    sizes = OUTER_BWD.sizes
    out = left.new_empty(batch, rows, columns)
    run(
        Launch(
            outer_bwd_kernel,
            (tiles(rows, sizes["BL"]) * tiles(columns, sizes["BR"]) * batch,),
            {"left": left, "right": right, "scale": left if scale is None else scale, "out": out},
            {"T": length, "TS": stride, "L": rows, "R": columns},
            OUTER_BWD,
            {"NORMED": scale is not None},
        )
    )
    return out.sum(0)


def launch_products(length: int, factors: Mapping[str, Tensor]) -> Tensor:
    """Sums (3, B, 2M, D) over time: of both banks' d_drive and normed features, and of states and d_stream.

    factors: d_drive, d_drive_2, states (B, 2M, T), pre, pre_2, d_stream (B, D, T), scale and scale_2 (B, T)
    """
    (batch, rows, stride), width, sizes = factors["states"].shape, factors["pre"].shape[1], OUTER_BWD.sizes
    products = factors["pre"].new_empty(3, batch, rows, width)
    run(
        Launch(
            products_bwd_kernel,
            (3 * tiles(rows, sizes["BL"]) * tiles(width, sizes["BR"]) * batch,),
            {**factors, "products": products},
            {"T": length, "TS": stride, "B": batch, "D": width, "N": rows},
            OUTER_BWD,
        )
    )
    return products
