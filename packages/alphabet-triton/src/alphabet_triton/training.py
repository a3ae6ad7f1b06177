"""Forward and backward of everything between the input and the moments, as launches over fresh tensors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from alphabet_triton.launching import Launch
from alphabet_triton.ops.lift.launch import (
    edge_backward,
    edge_forward,
    edge_rows,
    norm_backward,
    outer_backward,
    reader_backward,
    reader_forward,
    reader_rows,
)
from alphabet_triton.ops.scan.launch import CASCADED, DIRECT, scan_backward, scan_forward
from alphabet_triton.shapes import Masks, Shape
from alphabet_triton.weights import BankWeights, Weights

TAPS = 5


@dataclass(frozen=True)
class Saved:
    """What the way back needs of the way forward, next to its results.

    pre, lifted (B, D, T), scale (B, T) and states (B, 2M, T) of either bank; the cascaded bank's lifted features are
    the SiLU of its pre. sums (B, 2, 7, M) in float64 and counts (B, 4) are the results.
    """

    pre: Tensor
    lifted: Tensor
    scale: Tensor
    states: Tensor
    pre_2: Tensor
    scale_2: Tensor
    states_2: Tensor
    sums: Tensor
    counts: Tensor


@dataclass(frozen=True)
class Gradients:
    """Of the values and, summed over the first axis, of the folded weights.

    edge (.., D, 6 + C): taps, bias, projection; reader (.., D, 7): taps, bias, through
    """

    values: Tensor
    edge: Tensor
    matrix: Tensor
    transition: Tensor
    synthesis: Tensor
    reader: Tensor
    matrix_2: Tensor
    transition_2: Tensor


def plan_forward(shape: Shape, masks: Masks, values: Tensor, weights: Weights) -> tuple[list[Launch], Saved]:
    """Edge, direct scan, reader, cascaded scan, with everything kept."""
    make = values.new_empty
    saved = Saved(
        pre=make(shape.features),
        lifted=make(shape.features),
        scale=make(shape.tokens),
        states=make(shape.states),
        pre_2=make(shape.features),
        scale_2=make(shape.tokens),
        states_2=make(shape.states),
        sums=make(shape.sums, dtype=torch.float64),
        counts=make((shape.batch, 4), dtype=torch.int32),
    )
    drive, direct, cascaded = make(shape.states), weights.direct, weights.cascaded
    edge = {"pre": saved.pre, "lifted": saved.lifted, "scale": saved.scale, "drive": drive}
    features = {"lifted": saved.lifted, "scale": saved.scale, "states": saved.states}
    stream = {"synthesis": weights.synthesis, "through": weights.through}
    results = {"sums": saved.sums, "counts": saved.counts}
    reader = {"pre": saved.pre_2, "scale_2": saved.scale_2, "drive": drive}
    launches = [
        edge_forward(shape, masks, values, weights.project, direct, edge, keep=True),
        scan_forward(shape, masks, DIRECT, drive, direct.transition, {"states": saved.states, **results}, store=True),
        reader_forward(shape, masks, features, stream, cascaded, reader, keep=True),
        scan_forward(
            shape, masks, CASCADED, drive, cascaded.transition, {"states": saved.states_2, **results}, store=True
        ),
    ]
    return launches, saved


def plan_backward(
    shape: Shape, masks: Masks, values: Tensor, weights: Weights, saved: Saved, d_sums: Tensor
) -> tuple[list[Launch], Gradients]:
    """From d_sums (B, 2, 7, M) to all gradients, bank by bank in reverse."""
    make, batch, states = values.new_empty, shape.batch, 2 * shape.modes
    found = Gradients(
        values=torch.empty_like(values),
        edge=make(edge_rows(shape), shape.width, TAPS + 1 + shape.channels),
        matrix=make(batch, states, shape.width),
        transition=make(batch, states),
        synthesis=make(batch, shape.width, states),
        reader=make(reader_rows(shape), shape.width, TAPS + 2),
        matrix_2=make(batch, states, shape.width),
        transition_2=make(batch, states),
    )
    d_drive, d_states, d_scale = make(shape.states), make(shape.states), make(shape.tokens)
    d_pre, d_stream, d_lifted = make(shape.features), make(shape.features), make(shape.features)
    stream = {"synthesis": weights.synthesis, "through": weights.through}
    features = {"lifted": saved.lifted, "scale": saved.scale, "states": saved.states}
    read = {"d_stream": d_stream, "d_lifted": d_lifted, "d_scale": d_scale, "d_states": d_states}

    def scan(bank: int, kept: Tensor, of: BankWeights, into: Tensor) -> Launch:
        grads = {"d_sums": d_sums, "d_states": d_states}
        return scan_backward(
            shape, masks, bank, {"states": kept, "transition": of.transition}, grads,
            {"d_drive": d_drive, "d_transition": into},
        )  # fmt: skip

    def norm(bank: BankWeights, pre: Tensor, scale: Tensor, *, alone: bool) -> Launch:
        grads = {"d_lifted": d_lifted, "d_scale": d_scale, "d_drive": d_drive}
        return norm_backward(shape, masks, {"pre": pre, "scale": scale}, bank.matrix, grads, d_pre, alone=alone)

    launches = [
        scan(CASCADED, saved.states_2, weights.cascaded, found.transition_2),
        outer_backward(shape, d_drive, saved.pre_2, found.matrix_2, saved.scale_2),
        norm(weights.cascaded, saved.pre_2, saved.scale_2, alone=True),
        reader_backward(
            shape, masks, {"d_pre": d_pre, **features, **stream, "taps": weights.cascaded.taps},
            {**read, "d_weights": found.reader},
        ),
        outer_backward(shape, d_stream, saved.states, found.synthesis, None),
        scan(DIRECT, saved.states, weights.direct, found.transition),
        outer_backward(shape, d_drive, saved.pre, found.matrix, saved.scale),
        norm(weights.direct, saved.pre, saved.scale, alone=False),
        edge_backward(
            shape, masks, {"d_pre": d_pre, "values": values, "project": weights.project, "taps": weights.direct.taps},
            {"d_values": found.values, "d_weights": found.edge},
        ),
    ]  # fmt: skip
    return launches, found
