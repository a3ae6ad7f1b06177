"""Algorithm 1 by fused operators, differentiable: what `TritonTrainer` trains."""

from alphabet_core import Alphabet
from alphabet_core.fused import Bank, Frame
from torch import Tensor, nn

from alphabet_triton.ops.edge.autograd import edge
from alphabet_triton.ops.fold.autograd import fold, frame_at_base
from alphabet_triton.ops.head.autograd import head
from alphabet_triton.ops.reader.autograd import reader
from alphabet_triton.ops.scan.autograd import scan


def forward(model: Alphabet, values: Tensor, valid: Tensor | None, gate: Tensor | None) -> Tensor:
    """Logits (B, K) of values (B, T, C), for a model whose path is the fused one and whose frames are at their base.

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
        values, valid, model.project.weight, direct.lift.kernel, direct.lift.bias, matrix
    )
    states, sums, counts = scan(drive, transition, valid, gate, length)  # lines 8, 10: (B, 2M, T), (B, 7, M), (B, 4)
    back = synthesis.scale.unsqueeze(1) * frame  # (D, 2M)
    through = synthesis.scale * synthesis.feedthrough * direct.norm.gain  # (D,)
    sums_2, *_ = reader(  # lines 9, 11-15: (B, 7, M)
        lifted, scale, states, valid, back, through, cascaded.lift.kernel, cascaded.lift.bias, matrix_2, transition_2,
        length,
    )  # fmt: skip
    logits: Tensor = head(sums, sums_2, counts, affine.weight, affine.bias)[0]  # the last line: (B, K)
    return logits


def read_frame(bank: Bank) -> Tensor:
    """The frame (D, 2M) of a bank whose tangent is zero, or that does not train."""
    frame = bank.frame
    found: Tensor = frame_at_base(frame.base, frame.tangent) if isinstance(frame, Frame) else frame()
    return found


def fold_bank(bank: Bank, frame: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix (2M, D) to the drive and transition (2M,)."""
    found: tuple[Tensor, Tensor] = fold(frame, bank.poles.raw_decay, bank.poles.raw_frequency, bank.norm.gain)
    return found
