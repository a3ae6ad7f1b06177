"""The three launches of a forward pass: edge, reader and head."""

from typing import NamedTuple

from torch import Tensor

from alphabet_triton.ops.edge.launch import launch_edge
from alphabet_triton.ops.head.launch import launch_head
from alphabet_triton.ops.reader.launch import launch_reader
from alphabet_triton.weights import Weights


class Forward(NamedTuple):
    """What a forward pass leaves; all but logits and descriptor is meaningless unless it was kept for a backward.

    logits (B, K), descriptor (B, 2, M, 7); of the direct bank pre and lifted (B, D, T), scale (B, T), states (B, 2M, T)
    and sums (B, 7, M); of the cascaded bank pre_2, scale_2, states_2 and sums_2; counts (B, 4) of valid pairs
    """

    logits: Tensor
    descriptor: Tensor
    pre: Tensor
    lifted: Tensor
    scale: Tensor
    states: Tensor
    sums: Tensor
    pre_2: Tensor
    scale_2: Tensor
    states_2: Tensor
    sums_2: Tensor
    counts: Tensor


def infer(
    values: Tensor,
    valid: Tensor | None,
    gate: Tensor | None,
    weights: Weights,
    *,
    keep: bool = False,
    logits: Tensor | None = None,
) -> Forward:
    """The forward pass of values (B, T, C); with `keep`, all that a backward pass reads is stored.

    The logits are written to `logits` if that is given.
    """
    length, direct, cascaded = values.shape[1], weights.direct, weights.cascaded
    pre, lifted, scale, local, ends, tickets = launch_edge(
        values,
        valid,
        gate,
        project=weights.project,
        taps=direct.taps,
        bias=direct.bias,
        matrix=direct.matrix,
        transition=direct.transition,
        keep=keep,
    )
    states, parts, pre_2, scale_2, local_2, ends_2 = launch_reader(
        lifted=lifted,
        scale=scale,
        local=local,
        ends=ends,
        transition=direct.transition,
        valid=valid,
        synthesis=weights.synthesis,
        through=weights.through,
        taps=cascaded.taps,
        bias=cascaded.bias,
        matrix=cascaded.matrix,
        transition_2=cascaded.transition,
        length=length,
        keep=keep,
    )
    logits, descriptor, sums, sums_2, counts, states_2 = launch_head(
        parts=parts,
        local=local_2,
        ends=ends_2,
        transition=cascaded.transition,
        valid=valid,
        tickets=tickets,
        weight=weights.head,
        bias=weights.head_bias,
        width=lifted.shape[1],
        length=length,
        keep=keep,
        logits=logits,
    )
    return Forward(
        logits, descriptor, pre, lifted, scale, states, sums, pre_2, scale_2, states_2, sums_2, counts
    )  # fmt: skip
