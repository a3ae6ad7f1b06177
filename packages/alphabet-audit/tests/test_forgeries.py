"""Thousands of generated forgeries: none passes that the oracle calls contradictory, none ends in a traceback.

`nox -s forge` tries 100,000 of them.
"""

import os
import pickle
from collections import Counter

import pytest
from alphabet_audit import evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_testing.audit.evidence_copy import EvidenceCopy, read_run
from alphabet_testing.audit.fake_bench import Interrupting, run_fake
from alphabet_testing.audit.forger import Forger
from alphabet_testing.audit.oracle import FREE, MUST
from alphabet_testing.places import AUDIT

DECLARED = read_declarations()
# In ordinary tests 5,000 forgeries of four runs, most of them of a small one; more by the environment.
FACTOR = float(os.environ.get("ALPHABET_FORGERIES", "5000")) / 5000
COUNTS = {"part": 2700, "resumed": 2080, "whole": 100, "accepted": 120}


@pytest.fixture(scope="module")
def runs(whole_run, tmp_path_factory):
    """A part, a part that was interrupted twice, and whole ledgers of both versions; all of them hold."""
    folder = tmp_path_factory.mktemp("forged")
    run_fake(folder / "part", "same-width")
    for measurements in (60, 90):
        with pytest.raises(KeyboardInterrupt):
            run_fake(folder / "resumed", "same-width", clock=Interrupting(measurements))
    run_fake(folder / "resumed", "same-width")
    folders = {"part": folder / "part", "resumed": folder / "resumed", "whole": whole_run}
    found = {name: read_run(each, FILES) for name, each in folders.items()}
    return {**found, "accepted": read_run(AUDIT / "accepted" / "cpu-2026-11-16", FILES)}


@pytest.mark.slow
@pytest.mark.parametrize("share", range(4))
@pytest.mark.parametrize("name", COUNTS)
def test_no_forgery_passes_that_contradicts_itself(name, share, runs):
    run, count = runs[name], int(FACTOR * COUNTS[name] / 4)
    forger = Forger(run, f"{name} {share}")
    honest = run.judge(DECLARED).status
    assert honest in ("pass", "partial")
    seen = Counter()
    for _ in range(count):
        forged = forger.make()
        found = forged.judge(DECLARED)
        seen[forged.said, found.status] += 1
        assert not (forged.said == MUST and found.status != "fail"), (forged.done, found)
        assert not (forged.said == FREE and found.status != honest), (forged.done, found.reasons[:3])
        assert all(reason.isprintable() for reason in found.reasons), found.reasons
    assert seen[MUST, "fail"] > count / 2
    assert seen[FREE, honest] > count / 50
    print(f"{name}: {count} forgeries, {dict(seen)}")


@pytest.mark.slow
def test_a_forgery_on_disk_is_judged_as_in_memory(runs, tmp_path):
    forger = Forger(runs["part"], "on disk")
    for number in range(60):
        forged = forger.make()
        found = forged.judge(DECLARED)
        folder = tmp_path / str(number)
        folder.mkdir()
        written = EvidenceCopy(pickle.loads(pickle.dumps(forged.records)), forged.manifest, forged.copies)
        try:
            written.write(folder)
        except (ValueError, TypeError):  # what canonical JSON cannot hold cannot be evidence either
            assert found.status == "fail"
            continue
        assert evaluate(folder, DECLARED).status == found.status, forged.done
