"""Algorithm 1 by differentiable fused operators: the forward pass of `TritonTrainer`."""

from alphabet_core import Alphabet
from alphabet_core.fused import Bank, Frame
from torch import Tensor, nn

from alphabet_triton.ops.fold.autograd import fold, frame_at_base
from alphabet_triton.ops.logits.autograd import logits


def forward(model: Alphabet, values: Tensor, valid: Tensor | None, gate: Tensor | None) -> Tensor:
    """Logits (B, K) of values (B, T, C), for a model that the kernels cover and whose frames have zero tangents.

    valid and gate (B, T) as bytes, both or neither, say which tokens count and where the direct bank is driven.
    """
    direct, cascaded, synthesis, affine = model.direct, model.cascaded, model.synthesis, model.head
    assert cascaded is not None
    assert synthesis is not None
    assert isinstance(affine, nn.Linear)
    frame, frame_2 = read_frame(direct), read_frame(cascaded)  # (D, 2M)
    matrix, transition = fold_bank(direct, frame)  # (2M, D), (2M,)
    matrix_2, transition_2 = fold_bank(cascaded, frame_2)
    found: Tensor = logits(
        values,
        valid,
        gate,
        project=model.project.weight,
        taps=direct.lift.kernel,
        bias=direct.lift.bias,
        matrix=matrix,
        transition=transition,
        synthesis=synthesis.scale.unsqueeze(1) * frame,  # (D, 2M)
        through=synthesis.scale * synthesis.feedthrough * direct.norm.gain,  # (D,)
        taps_2=cascaded.lift.kernel,
        bias_2=cascaded.lift.bias,
        matrix_2=matrix_2,
        transition_2=transition_2,
        weight=affine.weight,
        head_bias=affine.bias,
    )[0]
    return found


def read_frame(bank: Bank) -> Tensor:
    """The frame (D, 2M) of a bank: one that trains, and then has a zero tangent, or one that is fixed."""
    frame = bank.frame
    found: Tensor = frame_at_base(frame.base, frame.tangent) if isinstance(frame, Frame) else frame()
    return found


def fold_bank(bank: Bank, frame: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix (2M, D) from features to the drive, and the transition (2M,), of a bank with this frame (D, 2M)."""
    found: tuple[Tensor, Tensor] = fold(frame, bank.poles.raw_decay, bank.poles.raw_frequency, bank.norm.gain)
    return found
