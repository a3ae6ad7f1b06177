"""One whole run of the ledger on the fake bench, which the tests read and none changes."""

import pytest
from alphabet_testing.audit.fake_bench import run_fake


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger") / "whole"
    run_fake(folder)
    return folder
