"""`logits`, Algorithm 1 of folded factors, as a torch operator, and its backward as another.

The forward is one operator because its three launches share what no gradient is asked of: chunks' states and tickets.
"""

from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from alphabet_triton.buffers import POWERS
from alphabet_triton.inference import infer
from alphabet_triton.ops.edge.launch import launch_edge_backward
from alphabet_triton.ops.head.launch import launch_head_backward
from alphabet_triton.ops.reader.launch import launch_reader_backward
from alphabet_triton.ops.registering import operator
from alphabet_triton.ops.scan.launch import launch_scan_backward
from alphabet_triton.weights import BankWeights, Weights


@operator("logits")
def logits(
    values: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    project: Tensor,
    taps: Tensor,
    bias: Tensor,
    matrix: Tensor,
    transition: Tensor,
    synthesis: Tensor,
    through: Tensor,
    taps_2: Tensor,
    bias_2: Tensor,
    matrix_2: Tensor,
    transition_2: Tensor,
    weight: Tensor,
    head_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Logits (B, K) of values (B, T, C) and, for the backward, all that `Forward` names behind them."""
    direct, cascaded = BankWeights(taps, bias, matrix, transition), BankWeights(taps_2, bias_2, matrix_2, transition_2)
    weights = Weights(project, direct, synthesis, through, cascaded, weight, head_bias)
    return tuple(infer(values, valid, gate, weights, keep=True))  # type: ignore[return-value]


@operator("logits_backward")
def logits_backward(
    values: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    project: Tensor,
    taps: Tensor,
    matrix: Tensor,
    transition: Tensor,
    synthesis: Tensor,
    through: Tensor,
    taps_2: Tensor,
    matrix_2: Tensor,
    transition_2: Tensor,
    weight: Tensor,
    descriptor: Tensor,
    pre: Tensor,
    lifted: Tensor,
    scale: Tensor,
    states: Tensor,
    sums: Tensor,
    pre_2: Tensor,
    scale_2: Tensor,
    states_2: Tensor,
    sums_2: Tensor,
    counts: Tensor,
    d_logits: Tensor,
) -> tuple[
    Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor
]:
    """The gradients of `logits`' arguments, in their order, without those of the masks.

    Those of transitions are of their first columns (2M,).
    """
    length = values.shape[1]
    d_sums, d_sums_2, d_weight, d_head_bias = launch_head_backward(sums, sums_2, counts, weight, descriptor, d_logits)
    d_lifted, d_scale, d_states, *d_reader = launch_reader_backward(
        lifted=lifted,
        scale=scale,
        states=states,
        valid=valid,
        synthesis=synthesis,
        through=through,
        taps=taps_2,
        matrix=matrix_2,
        transition=transition_2,
        length=length,
        pre=pre_2,
        scale_2=scale_2,
        states_2=states_2,
        d_sums=d_sums_2,
    )
    d_synthesis, d_through, d_taps_2, d_bias_2, d_matrix_2, d_transition_2 = d_reader
    d_drive, d_transition = launch_scan_backward(states, transition, valid, gate, length, d_sums, d_states)
    d_values, d_project, d_taps, d_bias, d_matrix = launch_edge_backward(
        values, valid, project, taps, matrix, pre, scale, d_lifted, d_scale, d_drive
    )
    return (
        d_values, d_project, d_taps, d_bias, d_matrix, d_transition, d_synthesis, d_through, d_taps_2, d_bias_2,
        d_matrix_2, d_transition_2, d_weight, d_head_bias,
    )  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    biases = (5, 11, 15)
    ctx.save_for_backward(*(tensor for i, tensor in enumerate(inputs) if i not in biases), *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_logits: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_logits is None:
        return (None,) * 16
    d_values, *d_weights = logits_backward(*ctx.saved_tensors, d_logits.contiguous())
    for i in (4, 10):  # a transition's gradient is its first column's
        d_weights[i] = pad(d_weights[i].unsqueeze(1), (0, POWERS - 1))
    return d_values, None, None, *d_weights


logits.register_autograd(_backward, setup_context=_save)
