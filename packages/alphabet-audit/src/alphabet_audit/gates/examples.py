"""The model and the batch that a case stands for, and the float64 oracle beside them."""

import copy
from dataclasses import dataclass

import torch
from alphabet_core import Alphabet, AlphabetConfig
from torch import Tensor

from alphabet_audit.cases import Case


@dataclass(frozen=True)
class Example:
    """values (B, T, C) float32 and class indices (B,), on the CPU."""

    model: Alphabet
    values: Tensor
    targets: Tensor

    def oracle(self) -> Alphabet:
        """The same model in float64."""
        return copy.deepcopy(self.model).double()

    def twin(self) -> Alphabet:
        """The same model once more: what trains does not change the example."""
        return copy.deepcopy(self.model)


def make_example(case: Case) -> Example:
    """Everything from the case's seed.

    All parameters are moved away from where they start, so that no factor of one and no term of zero hides a fault; all
    but tangents, because a frame at its base is what training leaves behind.
    """
    torch.manual_seed(case.seed)
    model = Alphabet(AlphabetConfig(case.channels, case.width, case.modes, case.outputs))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("tangent"):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return Example(model, torch.randn(case.batch, case.length, case.channels), torch.arange(case.batch) % case.outputs)


def make_masks(case: Case) -> dict[str, dict[str, Tensor]]:
    """Every combination of masks by name: tokens that are not valid, channels that were not observed."""
    generator = torch.Generator().manual_seed(case.seed)
    valid = torch.rand(case.batch, case.length, generator=generator) < 0.8
    observed = torch.rand(case.batch, case.length, case.channels, generator=generator) < 0.7
    return {
        "valid": {"valid": valid},
        "observed": {"observed": observed},
        "both": {"valid": valid, "observed": observed},
    }


def spoil_unreadable(values: Tensor, masks: dict[str, Tensor]) -> Tensor:
    """NaN wherever the masks say that nobody may read."""
    readable = torch.ones_like(values, dtype=torch.bool)
    for mask in masks.values():
        readable &= mask if mask.ndim == 3 else mask.unsqueeze(-1)
    return torch.where(readable, values, torch.nan)


def pad_invalid(values: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Values with invalid tokens of garbage behind them, and the validity that says so."""
    batch, length, channels = values.shape
    padded = torch.cat([values, torch.full((batch, tokens, channels), 1e3)], dim=1)
    valid = torch.ones(batch, length + tokens, dtype=torch.bool)
    valid[:, length:] = False
    return padded, valid
