"""How the lift's kernels are called."""

from torch import Tensor

from alphabet_triton.blocks import EDGE, EDGE_BWD, NORM_BWD, OUTER_BWD, READER, READER_BWD, feature_blocks
from alphabet_triton.launching import Launch
from alphabet_triton.ops.lift.backward import edge_bwd_kernel, norm_bwd_kernel, outer_bwd_kernel, reader_bwd_kernel
from alphabet_triton.ops.lift.kernel import edge_fwd_kernel, reader_fwd_kernel
from alphabet_triton.shapes import Masks, Shape
from alphabet_triton.weights import BankWeights

Tensors = dict[str, Tensor]


def _sizes(shape: Shape) -> dict[str, int]:
    return {"T": shape.length, "TS": shape.stride, "D": shape.width, "N": 2 * shape.modes}


def _grid(shape: Shape, block: int) -> tuple[int, int]:
    return -(-shape.length // block), shape.batch


def edge_forward(
    shape: Shape, masks: Masks, values: Tensor, project: Tensor, bank: BankWeights, out: Tensors, *, keep: bool
) -> Launch:
    """Lines 4-7 into out: lifted, scale, drive and, to keep, pre."""
    blocks = feature_blocks(EDGE, shape.width)
    return Launch(
        edge_fwd_kernel,
        _grid(shape, blocks.sizes["BT"]),
        {"values": values, "valid": masks.valid, "gate": masks.gate, "project": project, **bank.lift, **out},
        {**_sizes(shape), "C": shape.channels},
        blocks,
        {"MASKED": masks.given, "KEEP": keep},
    )


def reader_forward(
    shape: Shape, masks: Masks, features: Tensors, stream: Tensors, bank: BankWeights, out: Tensors, *, keep: bool
) -> Launch:
    """Lines 9-13: features are lifted, scale, states, stream synthesis and through; into out: drive, pre, scale_2."""
    blocks = feature_blocks(READER, shape.width)
    return Launch(
        reader_fwd_kernel,
        _grid(shape, blocks.sizes["BT"]),
        {**features, "valid": masks.valid, **stream, **bank.lift, **out},
        _sizes(shape),
        blocks,
        {"MASKED": masks.given, "KEEP": keep},
    )


def norm_backward(
    shape: Shape, masks: Masks, saved: Tensors, matrix: Tensor, grads: Tensors, out: Tensor, *, alone: bool
) -> Launch:
    """saved: pre and scale; grads: d_drive and, unless alone, d_lifted and d_scale; into out: d_pre."""
    blocks = feature_blocks(NORM_BWD, shape.width)
    return Launch(
        norm_bwd_kernel,
        _grid(shape, blocks.sizes["BT"]),
        {**saved, "valid": masks.valid, "matrix": matrix, **grads, "d_pre": out},
        _sizes(shape),
        blocks,
        {"MASKED": masks.given, "ALONE": alone},
    )


def outer_backward(shape: Shape, left: Tensor, right: Tensor, out: Tensor, scale: Tensor | None) -> Launch:
    """Out (B, L, R) from left (B, L, T) and right (B, R, T); with a scale, right is what features are the SiLU of."""
    rows, columns = left.shape[1], right.shape[1]
    sizes = OUTER_BWD.sizes
    return Launch(
        outer_bwd_kernel,
        (-(-rows // sizes["BL"]), -(-columns // sizes["BR"]), shape.batch),
        {"left": left, "right": right, "scale": left if scale is None else scale, "out": out},
        {"T": shape.length, "TS": shape.stride, "L": rows, "R": columns},
        OUTER_BWD,
        {"NORMED": scale is not None},
    )


def edge_backward(shape: Shape, masks: Masks, tensors: Tensors, out: Tensors) -> Launch:
    """tensors: d_pre, values, project, taps; into out: d_values and d_weights (`edge_rows` of them)."""
    blocks = feature_blocks(EDGE_BWD, shape.width)
    return Launch(
        edge_bwd_kernel,
        _grid(shape, blocks.sizes["BT"]),
        {**tensors, "valid": masks.valid, **out},
        {"T": shape.length, "TS": shape.stride, "C": shape.channels, "D": shape.width},
        blocks,
        {"MASKED": masks.given},
    )


def reader_backward(shape: Shape, masks: Masks, tensors: Tensors, out: Tensors) -> Launch:
    """tensors: d_pre, lifted, scale, states, synthesis, through, taps; into out: d_stream, d_lifted, d_scale, ..."""
    blocks = feature_blocks(READER_BWD, shape.width)
    return Launch(
        reader_bwd_kernel,
        _grid(shape, blocks.sizes["BT"]),
        {**tensors, "valid": masks.valid, **out},
        _sizes(shape),
        blocks,
        {"MASKED": masks.given},
    )


def edge_rows(shape: Shape) -> int:
    """How many programs `edge_backward` has, each with a row of d_weights."""
    blocks = feature_blocks(EDGE_BWD, shape.width)
    return shape.batch * _grid(shape, blocks.sizes["BT"])[0]


def reader_rows(shape: Shape) -> int:
    """How many programs `reader_backward` has, each with a row of d_weights."""
    blocks = feature_blocks(READER_BWD, shape.width)
    return shape.batch * _grid(shape, blocks.sizes["BT"])[0]
