"""The accepted ledgers under audit/accepted: each holds, and its pages are what its evidence says."""

import pytest
from alphabet_audit import read_declarations
from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.judge.evaluate import evaluate
from alphabet_audit.show.report import write_report
from alphabet_testing.places import AUDIT

ACCEPTED = sorted(path.parent for path in AUDIT.glob("accepted/*/manifest.json"))


def test_there_is_one():
    assert ACCEPTED


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_an_accepted_ledger_passes(run):
    found = evaluate(run, read_declarations())
    assert found.reasons == ()
    assert found.status == PASS
    assert found.counts == {"cells": 90, "rows": 180, "groups": 1260}


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_its_pages_are_made_of_its_evidence(run, tmp_path):
    write_report(run, read_declarations(), tmp_path)
    for name in ("report.html", "report.md"):
        assert (tmp_path / name).read_text() == (run / name).read_text(), name
