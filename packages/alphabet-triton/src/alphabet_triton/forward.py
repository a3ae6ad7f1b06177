"""Algorithm 1 by differentiable fused operators: what `TritonTrainer` predicts with.

A complete step of the usual kind does not come this way: `alphabet_triton.step` has its launches.
"""

from alphabet_core import Alphabet
from alphabet_core.fused import Bank, FixedFrame, Frame
from torch import Tensor, nn

from alphabet_triton.ops.edge.autograd import edge
from alphabet_triton.ops.fold.autograd import fold
from alphabet_triton.ops.head.autograd import head
from alphabet_triton.ops.reader.autograd import reader
from alphabet_triton.ops.scan.autograd import scan


def forward(model: Alphabet, values: Tensor, valid: Tensor | None, gate: Tensor | None) -> Tensor:
    """Logits (B, K) of values (B, T, C), for a model that the kernels cover and whose frames have zero tangents.

    valid and gate (B, T) as bytes, both or neither, say which tokens count and where the direct bank is driven.
    """
    direct, cascaded, synthesis, affine = model.direct, model.cascaded, model.synthesis, model.head
    assert cascaded is not None
    assert synthesis is not None
    assert isinstance(affine, nn.Linear)
    length = values.shape[1]
    matrix, transition, matrix_2, transition_2, synthesized, through, _ = fold(  # (2M, D), (2M,), .., (D, 2M), (D,)
        *list_factors(direct), *list_factors(cascaded), synthesis.scale, synthesis.feedthrough
    )
    lifted, scale, drive, _ = edge(  # lines 4-7: (B, D, T), (B, T), (B, 2M, T)
        values,
        valid,
        project=model.project.weight,
        taps=direct.lift.kernel,
        bias=direct.lift.bias,
        matrix=matrix,
    )
    states, sums, counts = scan(drive, transition, valid, gate, length)  # lines 8, 10: (B, 2M, T), (B, 7, M), (B, 4)
    sums_2, *_ = reader(  # lines 9, 11-15: (B, 7, M)
        lifted=lifted,
        scale=scale,
        states=states,
        valid=valid,
        synthesis=synthesized,
        through=through,
        taps=cascaded.lift.kernel,
        bias=cascaded.lift.bias,
        matrix=matrix_2,
        transition=transition_2,
        length=length,
    )
    logits: Tensor = head(sums, sums_2, counts, affine.weight, affine.bias)[0]  # the last line: (B, K)
    return logits


def list_factors(bank: Bank) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
    """What is folded of a bank: base, tangent, poles and norm gain; a fixed frame is a base without a tangent."""
    frame, poles = bank.frame, bank.poles
    if isinstance(frame, Frame):
        return frame.base, frame.tangent, poles.raw_decay, poles.raw_frequency, bank.norm.gain
    assert isinstance(frame, FixedFrame)
    return frame.columns_matrix, None, poles.raw_decay, poles.raw_frequency, bank.norm.gain
