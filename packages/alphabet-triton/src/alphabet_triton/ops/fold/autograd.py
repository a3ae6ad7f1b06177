"""`fold` and `frame_at_base` as torch operators, differentiable."""

from typing import Any

import torch
from alphabet_core.fused import TANGENT_SCALE
from torch import Tensor

from alphabet_triton.ops.fold.launch import launch_fold, launch_fold_backward
from alphabet_triton.ops.registering import gradient_of, operator

fold = operator("fold")(launch_fold)
fold_backward = operator("fold_backward")(launch_fold_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ARG001  torch names it
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_matrix: Tensor | None, d_transition: Tensor | None) -> tuple[Tensor, ...]:
    frame = ctx.saved_tensors[0]
    width, rows = frame.shape
    d_matrix = gradient_of(d_matrix, rows, width, like=frame)
    d_transition = gradient_of(d_transition, rows, like=frame)
    found: tuple[Tensor, ...] = fold_backward(*ctx.saved_tensors, d_matrix, d_transition)
    return found


fold.register_autograd(_backward, setup_context=_save)


@operator("frame_at_base")
def frame_at_base(base: Tensor, tangent: Tensor) -> Tensor:
    """The frame (D, 2M) where the tangent is zero: the base's columns, differentiable in the tangent."""
    return base[:, : tangent.shape[1]].clone(memory_format=torch.contiguous_format)


def _save_base(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.save_for_backward(inputs[0])


def _backward_to_tangent(ctx: Any, d_frame: Tensor) -> tuple[None, Tensor]:
    """To first order the frame is base (I + S), S = scale (X - X^T), X the tangent with columns of zero beside it."""
    (base,) = ctx.saved_tensors
    # In float64, which neither autocast nor TF32 touches. (D, 2M): the skew matrix's other columns were not read.
    d_skew = (base.double().mT @ d_frame.double()).float()
    columns, rows = d_frame.shape[1], d_frame.shape[0]
    mirrored = torch.nn.functional.pad(d_skew[:columns].mT, (0, 0, 0, rows - columns))
    return None, TANGENT_SCALE * (d_skew - mirrored)


frame_at_base.register_autograd(_backward_to_tangent, setup_context=_save_base)
