"""Fixtures and settings that all tests of alphabet-core share."""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch

from alphabet_core import Alphabet, AlphabetConfig

# Shared, noisy machines make per-example deadlines meaningless; a fixed derandomization keeps CI reproducible.
hypothesis.settings.register_profile("alphabet", deadline=None, derandomize=True, max_examples=40, print_blob=True)
hypothesis.settings.load_profile("alphabet")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20261116)


@pytest.fixture
def make_model() -> Callable[..., Alphabet]:
    """A small float64 model with nothing left at its special initial value."""
    return build_model


def build_model(variant: str = "full", *, seed: int = 0, dtype: torch.dtype = torch.float64, **sizes: Any) -> Alphabet:
    torch.manual_seed(seed)
    fields = {"channels": 2, "width": 8, "modes": 3, "outputs": 3} | sizes
    model = Alphabet(AlphabetConfig.variant(variant, **fields)).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("head"):
                parameter += 0.15 * torch.randn_like(parameter)
    return model
