"""`reader`, the terminal reader, as a torch operator, and its backward as another."""

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
    """The cascaded bank's moment sums (B, 7, M) and, for the backward, its pre, scale and states."""
    return launch_reader(
        lifted=lifted,
        scale=scale,
        states=states,
        valid=valid,
        synthesis=synthesis,
        through=through,
        taps=taps,
        bias=bias,
        matrix=matrix,
        transition=transition,
        length=length,
        keep=True,
    )


reader_backward = operator("reader_backward")(launch_reader_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *features, _, matrix, transition, ctx.length = inputs
    ctx.save_for_backward(*features, matrix, transition, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_sums: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_sums is None:
        return (None,) * 11
    lifted, scale, states, valid, synthesis, through, taps, matrix, transition, pre, scale_2, states_2 = (
        ctx.saved_tensors
    )
    d_lifted, d_scale, d_states, *d_weights = reader_backward(
        lifted=lifted,
        scale=scale,
        states=states,
        valid=valid,
        synthesis=synthesis,
        through=through,
        taps=taps,
        matrix=matrix,
        transition=transition,
        length=ctx.length,
        pre=pre,
        scale_2=scale_2,
        states_2=states_2,
        d_sums=d_sums.contiguous(),
    )
    return d_lifted, d_scale, d_states, None, *d_weights, None


reader.register_autograd(_backward, setup_context=_save)
