"""`edge` as a torch operator, and its backward as another."""

from typing import Any

from torch import Tensor

from alphabet_triton.ops.edge.launch import launch_edge, launch_edge_backward
from alphabet_triton.ops.registering import gradient_of, operator


@operator("edge")
def edge(
    values: Tensor, valid: Tensor | None, project: Tensor, taps: Tensor, bias: Tensor, matrix: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Lifted (B, D, T), scale (B, T), drive (B, 2M, T) and, for the backward, pre (B, D, T) of values (B, T, C)."""
    pre, lifted, scale, drive = launch_edge(
        values, valid, project=project, taps=taps, bias=bias, matrix=matrix, keep=True
    )
    return lifted, scale, drive, pre


edge_backward = operator("edge_backward")(launch_edge_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    values, valid, project, taps, _, matrix = inputs
    _, scale, _, pre = output
    ctx.save_for_backward(values, valid, project, taps, matrix, pre, scale)
    ctx.mark_non_differentiable(pre)
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, d_lifted: Tensor | None, d_scale: Tensor | None, d_drive: Tensor | None, _: None
) -> tuple[Tensor | None, ...]:
    values, valid, project, taps, matrix, pre, scale = ctx.saved_tensors
    batch, _width, stride = pre.shape
    d_values, d_project, d_taps, d_bias, d_matrix = edge_backward(
        values=values,
        valid=valid,
        project=project,
        taps=taps,
        matrix=matrix,
        pre=pre,
        scale=scale,
        d_lifted=gradient_of(d_lifted, *pre.shape, like=pre),
        d_scale=gradient_of(d_scale, *scale.shape, like=pre),
        d_drive=gradient_of(d_drive, batch, len(matrix), stride, like=pre),
    )
    return d_values, None, d_project, d_taps, d_bias, d_matrix


edge.register_autograd(_backward, setup_context=_save)
