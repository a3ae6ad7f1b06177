"""The points of the review of the evidence: every forgery that was once accepted is refused, in both versions."""

import pickle

import pytest
from alphabet_audit import read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.review_forgeries import CASES, FORGERIES
from alphabet_testing.places import AUDIT

DECLARED = read_declarations()
ACCEPTED = AUDIT / "accepted" / "cpu-2026-11-16"


@pytest.fixture(scope="module")
def runs(whole_run):
    """One whole run of each version, which pass: the accepted ledger, and the fake bench's."""
    copies = {1: read_run(ACCEPTED, FILES), 2: read_run(whole_run, FILES)}
    assert all(run.manifest["version"] == version for version, run in copies.items())
    assert all(run.judge(DECLARED).status == "pass" for run in copies.values())
    return {version: pickle.dumps(run) for version, run in copies.items()}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("point", "name"), CASES, ids=lambda value: str(value))
def test_a_forgery_of_the_review_is_refused(point, name, version, runs):
    forged = pickle.loads(runs[version])
    before = pickle.dumps((forged.records, forged.manifest))
    FORGERIES[point][name](forged)
    if pickle.dumps((forged.records, forged.manifest)) == before:
        pytest.skip("this run has no record of that kind")
    found = forged.judge(DECLARED)
    assert found.status == "fail"
    assert found.reasons
    assert all(reason.isprintable() for reason in found.reasons)
