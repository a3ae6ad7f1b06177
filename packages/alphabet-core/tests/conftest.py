"""Settings that all tests of alphabet-core share."""

import hypothesis
import pytest
import torch

# Shared, noisy machines make per-example deadlines meaningless; a fixed derandomization keeps CI reproducible.
hypothesis.settings.register_profile("alphabet", deadline=None, derandomize=True, max_examples=40, print_blob=True)
hypothesis.settings.load_profile("alphabet")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20261116)
