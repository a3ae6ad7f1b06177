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
from alphabet_core.poles import decay_of, frequency_of, zero_order_hold


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


@dataclass(frozen=True)
class FoldedParts:
    """The factors of any structure, as in `Folded`: None for what the model leaves out."""

    project: Tensor
    direct: FoldedBank
    synthesis: Tensor | None
    through: Tensor | None
    cascaded: FoldedBank | None


def fold(model: Alphabet) -> Folded:
    """The folded factors of a model with both banks and the synthesis."""
    parts = fold_parts(model)
    if parts.cascaded is None or parts.synthesis is None or parts.through is None:
        raise AlphabetError(
            "model must have a cascaded bank and the synthesis; the structural variants are not folded here but by "
            "fold_parts"
        )
    return Folded(parts.project, parts.direct, parts.synthesis, parts.through, parts.cascaded)


def fold_parts(model: Alphabet) -> FoldedParts:
    """The folded factors of a model, whichever parts it has."""
    frame = _read_frame(model.direct.frame)
    synthesis = through = None
    if model.synthesis is not None:
        scale = model.synthesis.scale.double()
        synthesis = scale.unsqueeze(1) * frame
        through = scale * model.synthesis.feedthrough.double() * model.direct.norm.gain.double()
    cascaded = model.cascaded
    return FoldedParts(
        project=model.project.weight.double(),
        direct=_fold_bank(model.direct, frame),
        synthesis=synthesis,
        through=through,
        cascaded=None if cascaded is None else _fold_bank(cascaded, _read_frame(cascaded.frame)),
    )


def _fold_bank(bank: Bank, frame: Tensor) -> FoldedBank:
    raw_decay, raw_frequency = bank.poles.raw_decay.double(), bank.poles.raw_frequency.double()
    step = torch.ones((), dtype=torch.float64, device=frame.device)
    transition, gain = zero_order_hold(decay_of(raw_decay), frequency_of(raw_frequency), step)
    return FoldedBank(
        taps=bank.lift.kernel.double(),
        bias=bank.lift.bias.double(),
        drive=multiply(gain, bank.norm.gain.double().unsqueeze(1) * frame),
        transition=transition,
    )


def _read_frame(frame: Frame | FixedFrame) -> Tensor:
    """The frame in float64; after a training step its tangent is zero, and the exponential can be left out."""
    if isinstance(frame, Frame) and not frame.tangent.any():
        return frame.to_first_order().double()
    matrix: Tensor = frame()
    return matrix.double()
