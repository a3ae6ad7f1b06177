"""The model and the batch of a case, the same model in float64, and masks."""

import copy
from dataclasses import dataclass

import torch
from alphabet_core import Alphabet, AlphabetConfig
from torch import Tensor

from alphabet_audit.declare.cases import Case


@dataclass(frozen=True)
class Example:
    """A model, values (B, T, C) in float32 and targets (B,), class indices, all on the CPU."""

    model: Alphabet
    values: Tensor
    targets: Tensor

    def oracle(self) -> Alphabet:
        """A copy of the model in float64."""
        return copy.deepcopy(self.model).double()

    def twin(self) -> Alphabet:
        """A copy of the model, which can be trained without changing the example."""
        return copy.deepcopy(self.model)


def make_example(case: Case) -> Example:
    """The example of a case, which follows from its seed."""
    torch.manual_seed(case.seed)
    model = Alphabet(AlphabetConfig(case.channels, case.width, case.modes, case.outputs))
    perturb_parameters(model)
    return Example(model, torch.randn(case.batch, case.length, case.channels), torch.arange(case.batch) % case.outputs)


@torch.no_grad()
def perturb_parameters(model: Alphabet) -> None:
    """Add noise to every parameter, so that no factor of one and no term of zero of an initial value hides a fault.

    Only tangents stay at zero, because a frame at its base is what a training step leaves behind.
    """
    for name, parameter in model.named_parameters():
        if not name.endswith("tangent"):
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def make_masks(case: Case) -> dict[str, dict[str, Tensor]]:
    """Every combination of masks by name: validity (B, T) of tokens, observation (B, T, C) of channels."""
    generator = torch.Generator().manual_seed(case.seed)
    valid = torch.rand(case.batch, case.length, generator=generator) < 0.8
    observed = torch.rand(case.batch, case.length, case.channels, generator=generator) < 0.7
    return {
        "valid": {"valid": valid},
        "observed": {"observed": observed},
        "both": {"valid": valid, "observed": observed},
    }


def spoil_unreadable(values: Tensor, masks: dict[str, Tensor]) -> Tensor:
    """Values (B, T, C) with NaN wherever a mask forbids reading."""
    readable = torch.ones_like(values, dtype=torch.bool)
    for mask in masks.values():
        readable &= mask if mask.ndim == 3 else mask.unsqueeze(-1)
    return torch.where(readable, values, torch.nan)


def pad_invalid(values: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Values (B, T + tokens, C) with invalid tokens of garbage appended, and their validity (B, T + tokens)."""
    batch, length, channels = values.shape
    padded = torch.cat([values, torch.full((batch, tokens, channels), 1e3)], dim=1)
    valid = torch.ones(batch, length + tokens, dtype=torch.bool)
    valid[:, length:] = False
    return padded, valid
