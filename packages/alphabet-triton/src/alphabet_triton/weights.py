"""The folded factors of a model in float32, in the layout that the kernels read."""

from dataclasses import dataclass, fields

import torch
from alphabet_core import Alphabet
from alphabet_core.fused import FoldedBank, fold
from torch import Tensor, nn

from alphabet_triton.buffers import POWERS


@dataclass(frozen=True)
class BankWeights:
    """The factors of one bank: taps (D, 5), bias (D,), matrix (2M, D) to the drive, and transition.

    A transition (2M, 11) has the pole's powers 1, 2, 4, .., 1024 as its columns, each rounded from float64: a pole that
    remembers a thousand tokens must not be a rounded one to the power of a thousand.
    """

    taps: Tensor
    bias: Tensor
    matrix: Tensor
    transition: Tensor


@dataclass(frozen=True)
class Weights:
    """All factors: project (D, C), both banks, synthesis (D, 2M), through (D,), head (K, 14 M) and head_bias (K,)."""

    project: Tensor
    direct: BankWeights
    synthesis: Tensor
    through: Tensor
    cascaded: BankWeights
    head: Tensor
    head_bias: Tensor


def read_weights(model: Alphabet) -> Weights:
    """The folded factors of a model that the kernels cover."""
    head, folded = model.head, fold(model)
    assert isinstance(head, nn.Linear)
    return Weights(
        project=_store(folded.project),
        direct=_read_bank(folded.direct),
        synthesis=_store(folded.synthesis),
        through=_store(folded.through),
        cascaded=_read_bank(folded.cascaded),
        head=_store(head.weight),
        head_bias=_store(head.bias),
    )


def _read_bank(bank: FoldedBank) -> BankWeights:
    return BankWeights(
        _store(bank.taps), _store(bank.bias), _store(bank.drive.mT), _store(list_powers(bank.transition))
    )


def list_powers(transition: Tensor) -> Tensor:
    """The powers 1, 2, 4, .. (2M, 11) of a transition (2M,) in float64, whose parts are packed."""
    power = torch.complex(*transition.unflatten(0, (2, -1)))
    columns = []
    for _ in range(POWERS):
        columns.append(torch.cat((power.real, power.imag)))
        power = power * power
    return torch.stack(columns, 1)


def _store(tensor: Tensor) -> Tensor:
    return tensor.detach().float().contiguous()


def copy_weights(into: Weights, weights: Weights) -> None:
    """Overwrite factors in place: recorded launches point to these tensors."""
    for target, source in zip(list_weights(into), list_weights(weights), strict=True):
        target.copy_(source)


def list_weights(weights: Weights | BankWeights) -> list[Tensor]:
    """All tensors of the factors, in an order that is always the same."""
    entries = [getattr(weights, field.name) for field in fields(weights)]
    return [t for entry in entries for t in ([entry] if isinstance(entry, Tensor) else list_weights(entry))]


def describe_place(weights: Weights) -> tuple[torch.device, torch.Size]:
    """The device of the factors, and the head's shape, which a model may change: others need tensors of their own."""
    return weights.project.device, weights.head.shape
