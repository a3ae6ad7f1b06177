"""Small models for tests, with nothing left at its special initial value."""

from typing import Any

import torch
from alphabet_core import Alphabet, AlphabetConfig


def build_model(variant: str = "full", *, seed: int = 0, dtype: torch.dtype = torch.float64, **sizes: Any) -> Alphabet:
    """A (2, 8, 3, 3) model of a variant whose parameters all moved away from where they start."""
    torch.manual_seed(seed)
    fields = {"channels": 2, "width": 8, "modes": 3, "outputs": 3} | sizes
    model = Alphabet(AlphabetConfig.variant(variant, **fields)).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("head"):
                parameter += (1.5 if name.endswith("tangent") else 0.15) * torch.randn_like(parameter)
    return model
