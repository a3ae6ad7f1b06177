"""Settings and fixtures that the tests of all packages share."""

from collections.abc import Iterator

import hypothesis
import pytest
import torch

# Shared, noisy machines make per-example deadlines meaningless; a fixed derandomization keeps CI reproducible.
hypothesis.settings.register_profile("alphabet", deadline=None, derandomize=True, max_examples=40, print_blob=True)
hypothesis.settings.load_profile("alphabet")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20261116)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Training amplifies the rounding of sums, which depends on the number of threads: fix it, on any machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
