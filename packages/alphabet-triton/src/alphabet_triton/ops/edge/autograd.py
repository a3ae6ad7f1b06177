"""`edge` as a torch operator, with the way back as another."""

from typing import Any

from torch import Tensor

from alphabet_triton.ops.edge.launch import launch_edge, launch_edge_backward
from alphabet_triton.ops.registering import operator


@operator("edge")
def edge(
    values: Tensor, valid: Tensor | None, project: Tensor, taps: Tensor, bias: Tensor, matrix: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lifted (B, D, T), scale (B, T), drive (B, 2M, T) and, for the way back, pre (B, D, T) of values (B, T, C)."""
    pre, lifted, scale, drive = launch_edge(values, valid, project, taps, bias, matrix, keep=True)
    return lifted, scale, drive, pre


edge_backward = operator("edge_backward")(launch_edge_backward)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    values, valid, project, taps, _, matrix = inputs
    _, scale, _, pre = output
    ctx.save_for_backward(values, valid, project, taps, matrix, pre, scale)
    ctx.mark_non_differentiable(pre)


def _return(ctx: Any, d_lifted: Tensor, d_scale: Tensor, d_drive: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    found = edge_backward(*ctx.saved_tensors, d_lifted.contiguous(), d_scale.contiguous(), d_drive.contiguous())
    d_values, *others = found
    return d_values, None, *others


edge.register_autograd(_return, setup_context=_keep)
