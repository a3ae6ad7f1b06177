"""`reader`, the terminal reader, as a torch operator, with the way back as another."""

from typing import Any

from torch import Tensor

from alphabet_triton.ops.reader.launch import launch_reader, launch_reader_backward
from alphabet_triton.ops.registering import operator


@operator("reader")
def reader(
    lifted: Tensor,
    scale: Tensor,
    states: Tensor,
    valid: Tensor | None,
    synthesis: Tensor,
    through: Tensor,
    taps: Tensor,
    bias: Tensor,
    matrix: Tensor,
    transition: Tensor,
    length: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The cascaded bank's moment sums (B, 7, M) and, for the way back, its pre, scale and states."""
    return launch_reader(
        lifted, scale, states, valid, synthesis, through, taps, bias, matrix, transition, length, keep=True
    )


reader_backward = operator("reader_backward")(launch_reader_backward)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *features, _, matrix, transition, ctx.length = inputs
    ctx.save_for_backward(*features, matrix, transition, *output[1:])
    ctx.mark_non_differentiable(*output[1:])


def _return(ctx: Any, d_sums: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    found = reader_backward(*saved[:-3], ctx.length, *saved[-3:], d_sums.contiguous())
    return *found[:3], None, *found[3:], None


reader.register_autograd(_return, setup_context=_keep)
