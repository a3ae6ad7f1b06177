"""`fold` as a torch operator, and its backward as another."""

from typing import Any

import torch
from torch import Tensor

from alphabet_triton.ops.fold.launch import Factors, Foldable, launch_fold, launch_fold_backward
from alphabet_triton.ops.registering import gradient_of, operator


@operator("fold")
def fold(
    base: Tensor,
    tangent: Tensor | None,  # noqa: ARG001  differentiated, not read
    raw_decay: Tensor,
    raw_frequency: Tensor,
    gain: Tensor,
    base_2: Tensor,
    tangent_2: Tensor | None,  # noqa: ARG001
    raw_decay_2: Tensor,
    raw_frequency_2: Tensor,
    gain_2: Tensor,
    synthesis_scale: Tensor,
    feedthrough: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Matrix (2M, D) and transition (2M, 11) of both banks, synthesis (D, 2M), through (D,), poles for the backward.

    A transition's first column is differentiated; the others, its powers 2, 4, .., only save the work of raising it.
    Tangents are zero, and only say that the frames, which are the bases' first columns, are differentiated; a frame
    without one is fixed.
    """
    given = (base, raw_decay, raw_frequency, gain, base_2, raw_decay_2, raw_frequency_2, gain_2)
    factors = launch_fold(Foldable(*given, synthesis_scale, feedthrough))
    return (
        factors.matrix, factors.transition, factors.matrix_2, factors.transition_2, factors.synthesis, factors.through,
        factors.poles,
    )  # fmt: skip


@operator("fold_backward")
def fold_backward(
    given: list[Tensor], factors: list[Tensor], d_matrices: Tensor, d_transitions: Tensor, d_through: Tensor
) -> list[Tensor]:
    """The gradients of both banks' tangents, poles and gains, one bank after the other, and of the synthesis."""
    foldable = Foldable(*given)
    width, modes = len(foldable.gain), len(foldable.raw_decay)
    shapes = {"d_tangent": (width, 2 * modes), "d_decay": (modes,), "d_frequency": (modes,), "d_gain": (width,)}
    shapes |= {f"{name}_2": shape for name, shape in shapes.items()}
    shapes |= {"d_synthesis_scale": (width,), "d_feedthrough": (width,)}
    found = {name: d_through.new_empty(shape) for name, shape in shapes.items()}
    gradients = {"d_matrices": d_matrices, "d_transitions": d_transitions, "d_through": d_through}
    launch_fold_backward(foldable, Factors(*factors), gradients, found)
    return list(found.values())


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    base, tangent, *bank, base_2, tangent_2, d, f, n, scale, feedthrough = inputs
    ctx.trained = tangent is not None, tangent_2 is not None
    ctx.save_for_backward(base, *bank, base_2, d, f, n, scale, feedthrough, *output)
    ctx.mark_non_differentiable(output[-1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    given, factors = list(ctx.saved_tensors[:10]), list(ctx.saved_tensors[10:])
    matrix, transition, matrix_2, transition_2, synthesis, through = (
        gradient_of(gradient, *factor.shape, like=factor)
        for gradient, factor in zip(gradients[:-1], factors[:-1], strict=True)
    )
    d_matrices = torch.stack([matrix, matrix_2, synthesis.mT])
    d_transitions = torch.stack([transition[:, 0], transition_2[:, 0]])
    d_tangent, *bank, d_tangent_2, d_decay_2, d_frequency_2, d_gain_2, d_scale, d_feedthrough = fold_backward(
        given, factors, d_matrices, d_transitions, through
    )
    tangents = [d if trained else None for d, trained in zip((d_tangent, d_tangent_2), ctx.trained, strict=True)]
    return None, tangents[0], *bank, None, tangents[1], d_decay_2, d_frequency_2, d_gain_2, d_scale, d_feedthrough


fold.register_autograd(_backward, setup_context=_save)
