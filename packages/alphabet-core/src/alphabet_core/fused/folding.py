"""The model's factors multiplied out, which a fused runtime reads instead of the parameters.

The norm's gain and the zero-order hold's complex gain are linear in the frame, the synthesis scale in its transpose, so
all three become part of matrices. Everything is a differentiable function of the parameters, computed in float64:
folding adds no rounding of its own.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.model import Alphabet, Bank
from alphabet_core.pairs import multiply


@dataclass(frozen=True)
class FoldedBank:
    """The factors of one bank on a unit grid, for features h that were lifted but not normed.

    taps (D, 5), bias (D,): the lift
    drive (D, 2M): scale h @ drive is what enters the recurrence, with scale = rsqrt(mean(h^2) + epsilon)
    transition (2M,): what the states are multiplied with from token to token
    """

    taps: Tensor
    bias: Tensor
    drive: Tensor
    transition: Tensor


@dataclass(frozen=True)
class Folded:
    """The factors of the full dataflow: H1 = H0 (1 + scale through) + Z1 @ synthesis.mT, with project (D, C) in front.

    synthesis (D, 2M), through (D,): the synthesis scale times the frame, and times feedthrough and norm gain
    """

    project: Tensor
    direct: FoldedBank
    synthesis: Tensor
    through: Tensor
    cascaded: FoldedBank


def fold(model: Alphabet) -> Folded:
    """The folded factors of a model with both banks and the synthesis."""
    cascaded, synthesis = model.cascaded, model.synthesis
    if cascaded is None or synthesis is None:
        raise AlphabetError("model must have a cascaded bank and the synthesis; the structural variants are not folded")
    frames = [_read_frame(bank.frame) for bank in (model.direct, cascaded)]
    scale = synthesis.scale.double()
    return Folded(
        project=model.project.weight.double(),
        direct=_fold_bank(model.direct, frames[0]),
        synthesis=scale.unsqueeze(1) * frames[0],
        through=scale * synthesis.feedthrough.double() * model.direct.norm.gain.double(),
        cascaded=_fold_bank(cascaded, frames[1]),
    )


def _fold_bank(bank: Bank, frame: Tensor) -> FoldedBank:
    transition, gain = bank.poles.hold(torch.ones((), dtype=torch.float64, device=frame.device))
    return FoldedBank(
        taps=bank.lift.kernel.double(),
        bias=bank.lift.bias.double(),
        drive=multiply(gain.double(), bank.norm.gain.double().unsqueeze(1) * frame),
        transition=transition.double(),
    )


def _read_frame(frame: Frame | FixedFrame) -> Tensor:
    """The frame in float64; after a training step its tangent is zero, and the exponential can be left out."""
    if isinstance(frame, Frame) and not frame.tangent.any():
        return frame.to_first_order().double()
    matrix: Tensor = frame()
    return matrix.double()
