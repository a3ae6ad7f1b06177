"""The evaluator passes whole evidence and nothing else: every planted fault is caught."""

import json
import pickle

import pytest
from alphabet_audit import evaluate, read_declarations
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.evidence.chain import MANIFEST, RECORDS
from alphabet_audit.judge.agreement import check_executions, check_gates, check_parity
from alphabet_audit.judge.cells import check_cells
from alphabet_audit.judge.evaluate import LEDGER_CHECKS
from alphabet_audit.judge.order import check_completeness, check_order, check_sessions, check_totals
from alphabet_audit.judge.repeated import check_repeated_samples
from alphabet_audit.judge.run import Run
from alphabet_audit.judge.timing import check_calibration, check_noise, check_orders, check_rows, check_samples
from alphabet_audit.protocol.plan import Plan
from alphabet_testing.audit.byte_faults import DAMAGE
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import run_fake
from alphabet_testing.audit.manifest_faults import MANIFEST_EDITS
from alphabet_testing.audit.record_faults import EDITS, SINGLE_EDITS

PLANTED = [
    *((name, plant, number) for number, (name, plant) in enumerate(EDITS.items())),
    *((name, plant, number + 90) for number, (name, plant) in enumerate(EDITS.items()) if name.startswith("group")),
    *((name, plant, 0) for name, plant in {**SINGLE_EDITS, **MANIFEST_EDITS}.items()),
]
DAMAGED = [(name, damage, number) for name, (damage, places) in DAMAGE.items() for number in range(1, places + 1)]


def cases(faults):
    """Faults as parameters of tests; every fourth is part of the quick loop."""
    return [
        pytest.param(*fault, id=f"{fault[0]} {fault[2]}", marks=[pytest.mark.slow] if place % 4 else [])
        for place, fault in enumerate(faults)
    ]


@pytest.fixture(scope="module")
def evidence(whole_run):
    return read_run(whole_run, FILES)


@pytest.fixture(scope="module")
def pickled(evidence):
    """A copy of it in a tenth of the time that deepcopy takes."""
    return pickle.dumps(evidence)


@pytest.fixture(scope="module")
def declarations():
    return read_declarations()


def test_there_are_at_least_two_hundred_faults():
    assert len(PLANTED) + len(DAMAGED) >= 200


def test_whole_evidence_passes(whole_run, declarations):
    found = evaluate(whole_run, declarations)
    assert found.status == "pass", found.reasons
    assert found.counts == {"cells": 90, "rows": 180, "groups": 1260, "sessions": 1, "resumes": 0}
    assert len(found.means) == 10


def test_evidence_written_anew_without_a_fault_passes(pickled, declarations, tmp_path):
    whole = pickle.loads(pickled)
    assert whole.judge(declarations).status == "pass"
    whole.write(tmp_path)
    assert evaluate(tmp_path, declarations).status == "pass"


@pytest.mark.parametrize(("name", "plant", "number"), cases(PLANTED))
def test_an_edit_is_caught_although_the_chain_holds(name, plant, number, evidence, pickled, declarations):
    """In memory: the evaluator's own judgement, without writing and reading again what the fault did not touch."""
    edited = pickle.loads(pickled)
    plant(edited, number)
    assert (edited.records, edited.manifest, edited.copies) != (evidence.records, evidence.manifest, evidence.copies)
    found = edited.judge(declarations)
    assert found.status == "fail"
    assert found.reasons


WRITTEN = PLANTED[::5]  # of every kind of record, and of the manifest


@pytest.mark.parametrize(("name", "plant", "number"), cases(WRITTEN))
def test_an_edit_on_disk_is_judged_as_in_memory(name, plant, number, pickled, declarations, tmp_path):
    edited = pickle.loads(pickled)
    plant(edited, number)
    edited.write(tmp_path)
    found = evaluate(tmp_path, declarations)
    assert found.status == "fail"
    judged = edited.judge(declarations)
    assert [reason.removeprefix(f"{tmp_path}/") for reason in found.reasons] == list(judged.reasons)


@pytest.mark.parametrize(("name", "damage", "number"), cases(DAMAGED))
def test_damaged_bytes_are_caught(name, damage, number, whole_run, evidence, declarations, tmp_path):
    content = (whole_run / RECORDS).read_bytes()
    damaged = damage(content, number)
    assert damaged != content
    evidence.write_bytes(tmp_path, damaged)
    assert evaluate(tmp_path, declarations).status == "fail"


@pytest.mark.parametrize("number", range(12))
def test_a_bit_of_the_manifest_is_caught(number, whole_run, evidence, declarations, tmp_path):
    content = (whole_run / MANIFEST).read_bytes()
    evidence.write_bytes(tmp_path, (whole_run / RECORDS).read_bytes())
    place = (len(content) * number) // 12 + number
    (tmp_path / MANIFEST).write_bytes(
        content[:place] + bytes([content[place] ^ (1 << number % 7)]) + content[place + 1 :]
    )
    assert evaluate(tmp_path, declarations).status == "fail"


def test_the_manifest_of_another_run_is_caught(whole_run, evidence, declarations, tmp_path):
    run_fake(tmp_path / "other", "same-width")
    evidence.write_bytes(tmp_path, (whole_run / RECORDS).read_bytes())
    foreign = json.loads((tmp_path / "other" / MANIFEST).read_text())
    mine = json.loads((whole_run / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**foreign, "head": mine["head"], "records": mine["records"]}))
    assert any(
        "not the one that the records began with" in reason for reason in evaluate(tmp_path, declarations).reasons
    )


def test_a_part_holds_but_never_passes(tmp_path, declarations):
    run_fake(tmp_path / "part", "same-width")
    found = evaluate(tmp_path / "part", declarations)
    assert (found.status, found.reasons, found.scope) == ("partial", (), "same-width")
    assert found.counts == {"cells": 9, "rows": 18, "groups": 126, "sessions": 1, "resumes": 0}


def test_a_part_relabelled_as_the_whole_fails(tmp_path, declarations):
    run_fake(tmp_path / "part", "same-width")
    part, whole = read_run(tmp_path / "part", FILES), read_run(tmp_path / "part", FILES)
    part.manifest["plan"] |= {"scope": "all"}
    part.begin_again()
    part.write(tmp_path / "part")
    assert evaluate(tmp_path / "part", declarations).status == "fail"
    assert whole.manifest["plan"]["scope"] == "same-width"


def test_fewer_designs_are_no_whole_ledger(tmp_path, declarations):
    folder = tmp_path / "audit"
    folder.mkdir()
    for name, content in declarations.contents.items():
        (folder / name).write_bytes(content.replace(b"    [64, 512, 64],\n", b""))
    fewer = run_fake(tmp_path / "run", declarations=read_declarations(folder))
    reasons = evaluate(tmp_path / "run", fewer).reasons
    assert "81 cells; the ledger has 90" in reasons
    assert "1134 groups; the ledger has 1260" in reasons


def test_a_folder_that_is_no_run_is_said_so(tmp_path, declarations):
    found = evaluate(tmp_path, declarations)
    assert found.status == "fail"
    assert "is not the folder of a run" in found.reasons[0]


# One fault for every question that the evaluator asks, found by that question alone.
BY_CHECK = {
    check_completeness: EDITS["group lost"],
    check_totals: EDITS["row lost"],
    check_order: EDITS["gate after timing"],
    check_calibration: EDITS["start's calibration"],
    check_samples: lambda run, number: run.of("start", number)["warmups"].update(A=[1e-8] * 5),
    check_repeated_samples: EDITS["group copied"],
    check_sessions: SINGLE_EDITS["session's clock"],
    check_orders: EDITS["orders exchanged"],
    check_rows: EDITS["row's ratio"],
    check_executions: EDITS["choice of the slower"],
    check_parity: EDITS["parity's limit widened"],
    check_gates: EDITS["gate's rule"],
    check_cells: MANIFEST_EDITS["matched ten per cent apart"],
    check_noise: EDITS["noise"],
}


@pytest.mark.parametrize("check", LEDGER_CHECKS, ids=lambda check: check.__name__)
def test_every_check_finds_its_own_fault(check, pickled, declarations, tmp_path):
    whole, edited = pickle.loads(pickled), pickle.loads(pickled)
    BY_CHECK[check](edited, 1)
    plan = Plan("all", declarations)
    assert not list(check(Run(whole.manifest, whole.records, plan)))
    assert list(check(Run(edited.manifest, edited.records, plan)))
