"""The five launches of a forward pass that keeps nothing for a backward pass."""

from torch import Tensor

from alphabet_triton.ops.edge.launch import launch_edge
from alphabet_triton.ops.head.launch import launch_head
from alphabet_triton.ops.reader.launch import launch_reader
from alphabet_triton.ops.scan.launch import launch_scan
from alphabet_triton.weights import Weights


def infer(
    values: Tensor, valid: Tensor | None, gate: Tensor | None, weights: Weights, *, logits: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (B, K) and descriptor (B, 2, M, 7) of values (B, T, C); the cascaded bank's states are never stored.

    The logits are written to `logits` if that is given.
    """
    length, direct, cascaded = values.shape[1], weights.direct, weights.cascaded
    _, lifted, scale, drive = launch_edge(
        values, valid, project=weights.project, taps=direct.taps, bias=direct.bias, matrix=direct.matrix, keep=False
    )
    states, sums, counts = launch_scan(drive, direct.transition, valid, gate, length, store=True, count=True)
    sums_2, *_ = launch_reader(
        lifted=lifted,
        scale=scale,
        states=states,
        valid=valid,
        synthesis=weights.synthesis,
        through=weights.through,
        taps=cascaded.taps,
        bias=cascaded.bias,
        matrix=cascaded.matrix,
        transition=cascaded.transition,
        length=length,
        keep=False,
        drive=drive,
    )
    return launch_head(sums, sums_2, counts, weights.head, weights.head_bias, logits)
