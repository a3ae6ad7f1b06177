"""The five launches of a forward pass, over buffers that a shape determines."""

from dataclasses import dataclass

import torch
from torch import Tensor

from alphabet_triton.launching import Launch
from alphabet_triton.ops.head.launch import head_forward
from alphabet_triton.ops.lift.launch import edge_forward, reader_forward
from alphabet_triton.ops.scan.launch import CASCADED, DIRECT, scan_forward
from alphabet_triton.shapes import Masks, Shape
from alphabet_triton.weights import Weights


@dataclass(frozen=True)
class Buffers:
    """What a forward pass writes: features, states of the direct bank, and results.

    lifted (B, D, T), scale (B, T), drive and states (B, 2M, T), sums (B, 2, 7, M) in float64, counts (B, 4),
    descriptor (B, 2, M, 7), logits (B, K)
    """

    lifted: Tensor
    scale: Tensor
    drive: Tensor
    states: Tensor
    sums: Tensor
    counts: Tensor
    descriptor: Tensor
    logits: Tensor


def allocate(shape: Shape, outputs: int, device: torch.device) -> Buffers:
    """Buffers for every forward pass of this shape."""

    def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(sizes, dtype=dtype, device=device)

    return Buffers(
        lifted=empty(*shape.features),
        scale=empty(*shape.tokens),
        drive=empty(*shape.states),
        states=empty(*shape.states),
        sums=empty(*shape.sums, dtype=torch.float64),
        counts=empty(shape.batch, 4, dtype=torch.int32),
        descriptor=empty(shape.batch, 2, shape.modes, 7),
        logits=empty(shape.batch, outputs),
    )


def plan_forward(shape: Shape, masks: Masks, values: Tensor, weights: Weights, buffers: Buffers) -> list[Launch]:
    """Edge, direct scan, reader, cascaded scan, head; the cascaded bank's states are never stored."""
    direct, cascaded, b = weights.direct, weights.cascaded, buffers
    edge = {"pre": b.lifted, "lifted": b.lifted, "scale": b.scale, "drive": b.drive}
    features = {"lifted": b.lifted, "scale": b.scale, "states": b.states}
    stream = {"synthesis": weights.synthesis, "through": weights.through}
    sums = {"states": b.states, "sums": b.sums, "counts": b.counts}
    reader = {"pre": b.lifted, "scale_2": b.scale, "drive": b.drive}
    return [
        edge_forward(shape, masks, values, weights.project, direct, edge, keep=False),
        scan_forward(shape, masks, DIRECT, b.drive, direct.transition, sums, store=True),
        reader_forward(shape, masks, features, stream, cascaded, reader, keep=False),
        scan_forward(shape, masks, CASCADED, b.drive, cascaded.transition, sums, store=False),
        head_forward(
            b.sums, b.counts, weights.head, weights.head_bias, {"descriptor": b.descriptor, "logits": b.logits}
        ),
    ]
