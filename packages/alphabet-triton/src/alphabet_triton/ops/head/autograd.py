"""`head`, conditioning and affine head, as a torch operator, and its backward as another."""

from typing import Any

from torch import Tensor

from alphabet_triton.ops.head.launch import launch_head, launch_head_backward
from alphabet_triton.ops.registering import operator


@operator("head")
def head(sums: Tensor, sums_2: Tensor, counts: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (B, K) and descriptor (B, 2, M, 7) of moment sums (B, 7, M) of either bank over counts (B, 4)."""
    return launch_head(sums, sums_2, counts, weight, bias)


head_backward = operator("head_backward")(launch_head_backward)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *given, _ = inputs
    ctx.save_for_backward(*given, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_logits: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if d_logits is None:
        return (None,) * 5
    d_sums, d_sums_2, d_weight, d_bias = head_backward(*ctx.saved_tensors, d_logits.contiguous())
    return d_sums, d_sums_2, None, d_weight, d_bias


head.register_autograd(_backward, setup_context=_save)
