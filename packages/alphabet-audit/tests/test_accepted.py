"""The accepted ledgers under audit/accepted: each holds, and its pages are what its evidence says."""

import pytest
from alphabet_audit import AuditError, read_declarations
from alphabet_audit.declare.verdicts import PASS
from alphabet_audit.evidence.chain import read_manifest
from alphabet_audit.judge.evaluate import evaluate
from alphabet_audit.judge.sources import ask_git, check_commit
from alphabet_audit.show.report_check import check_report
from alphabet_audit.show.results import read_results
from alphabet_testing.places import AUDIT, ROOT

ACCEPTED = sorted(path.parent for path in AUDIT.glob("accepted/*/manifest.json"))
FIRST = AUDIT / "accepted" / "cpu-2026-11-16"  # of the first version of the format; later ones are of the second


def test_there_is_one():
    assert ACCEPTED


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_an_accepted_ledger_passes(run):
    found = evaluate(run, read_declarations())
    assert found.reasons == ()
    assert found.status == PASS
    assert found.counts == {"cells": 90, "rows": 180, "groups": 1260, "sessions": 1, "resumes": 0}


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_an_accepted_ledger_says_its_version(run):
    assert evaluate(run, read_declarations()).version == (1 if run == FIRST else 2)


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_the_ratios_on_its_pages_are_those_of_its_evidence(run):
    """By value: the words around them may be written better, and the pages are those of an older version."""
    declarations = read_declarations()
    wrong, right = check_report(run, read_results(run, declarations), declarations)
    assert wrong == []
    assert len(right) == 2


def test_its_noisy_rows_are_worth_a_look():
    remarks = {remark.describe() for remark in evaluate(FIRST, read_declarations()).remarks}
    assert "parameter-matched 64/512/64 lstm inference: groups of the family took 14 times their calibration" in remarks


@pytest.mark.parametrize("run", ACCEPTED, ids=lambda run: run.name)
def test_its_sources_are_those_of_its_commit(run):
    """Where the checkout has its history, by git: the hash of every file, or since version 2 of every package."""
    manifest = read_manifest(run)
    try:
        ask_git(ROOT, "cat-file", "-e", manifest["environment"]["git"]["commit"])
    except AuditError:
        pytest.skip("this checkout does not have the ledger's commit")
    assert list(check_commit(manifest, ROOT)) == []
    if run == FIRST:
        manifest["environment"]["imports"].pop("alphabet_core/scan.py")
        wanted = "alphabet_core: 1 recorded sources are not those of commit"
    else:
        manifest["environment"]["sources"]["alphabet_core"] = "0" * 64
        wanted = "the sources of alphabet_core are not those of commit"
    (reason,) = check_commit(manifest, ROOT)
    assert wanted in reason
