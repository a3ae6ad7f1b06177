"""Algorithm 1 by differentiable fused operators: what `TritonTrainer` predicts with.

A complete step of the usual kind does not come this way: `alphabet_triton.step` has its launches.
"""

from alphabet_core import Alphabet
from alphabet_core.fused import Bank, FixedFrame, Frame
from torch import Tensor, nn

from alphabet_triton.ops.fold.autograd import fold
from alphabet_triton.ops.logits.autograd import logits


def forward(model: Alphabet, values: Tensor, valid: Tensor | None, gate: Tensor | None) -> Tensor:
    """Logits (B, K) of values (B, T, C), for a model that the kernels cover and whose frames have zero tangents.

    valid and gate (B, T) as bytes, both or neither, say which tokens count and where the direct bank is driven.
    """
    direct, cascaded, synthesis, affine = model.direct, model.cascaded, model.synthesis, model.head
    assert cascaded is not None
    assert synthesis is not None
    assert isinstance(affine, nn.Linear)
    matrix, transition, matrix_2, transition_2, synthesized, through, _ = fold(  # (2M, D), (2M, 11), .., (D, 2M), (D,)
        *list_factors(direct), *list_factors(cascaded), synthesis.scale, synthesis.feedthrough
    )
    found: Tensor = logits(
        values,
        valid,
        gate,
        project=model.project.weight,
        taps=direct.lift.kernel,
        bias=direct.lift.bias,
        matrix=matrix,
        transition=transition,
        synthesis=synthesized,
        through=through,
        taps_2=cascaded.lift.kernel,
        bias_2=cascaded.lift.bias,
        matrix_2=matrix_2,
        transition_2=transition_2,
        weight=affine.weight,
        head_bias=affine.bias,
    )[0]
    return found


def list_factors(bank: Bank) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """What is folded of a bank: base, tangent, poles and norm gain; a fixed frame is a base without a tangent."""
    frame, poles = bank.frame, bank.poles
    if isinstance(frame, Frame):
        return frame.base, frame.tangent, poles.raw_decay, poles.raw_frequency, bank.norm.gain
    assert isinstance(frame, FixedFrame)
    return frame.columns_matrix, None, poles.raw_decay, poles.raw_frequency, bank.norm.gain
