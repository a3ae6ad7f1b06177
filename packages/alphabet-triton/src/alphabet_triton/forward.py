"""Algorithm 1 by differentiable fused operators: the forward pass of `TritonTrainer`."""

from alphabet_core import Alphabet
from alphabet_core.fused import Bank, Frame
from torch import Tensor, nn

from alphabet_triton.ops.edge.autograd import edge
from alphabet_triton.ops.fold.autograd import fold, frame_at_base
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
    frame, frame_2 = read_frame(direct), read_frame(cascaded)  # (D, 2M)
    matrix, transition = fold_bank(direct, frame)  # (2M, D), (2M,)
    matrix_2, transition_2 = fold_bank(cascaded, frame_2)
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
        synthesis=synthesis.scale.unsqueeze(1) * frame,  # (D, 2M)
        through=synthesis.scale * synthesis.feedthrough * direct.norm.gain,  # (D,)
        taps=cascaded.lift.kernel,
        bias=cascaded.lift.bias,
        matrix=matrix_2,
        transition=transition_2,
        length=length,
    )
    logits: Tensor = head(sums, sums_2, counts, affine.weight, affine.bias)[0]  # the last line: (B, K)
    return logits


def read_frame(bank: Bank) -> Tensor:
    """The frame (D, 2M) of a bank: one that trains, and then has a zero tangent, or one that is fixed."""
    frame = bank.frame
    found: Tensor = frame_at_base(frame.base, frame.tangent) if isinstance(frame, Frame) else frame()
    return found


def fold_bank(bank: Bank, frame: Tensor) -> tuple[Tensor, Tensor]:
    """The matrix (2M, D) from features to the drive, and the transition (2M,), of a bank with this frame (D, 2M)."""
    found: tuple[Tensor, Tensor] = fold(frame, bank.poles.raw_decay, bank.poles.raw_frequency, bank.norm.gain)
    return found
