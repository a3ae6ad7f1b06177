"""Runs of the ledger on the fake bench."""

import pytest
from alphabet_testing.audit.fake_bench import run_fake


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    """A whole run, which the tests read and none changes."""
    folder = tmp_path_factory.mktemp("ledger") / "whole"
    run_fake(folder)
    return folder


@pytest.fixture
def part(tmp_path):
    """A run of one design, finished, in a folder that a test may change."""
    run_fake(tmp_path / "run", "same-width")
    return tmp_path / "run"
