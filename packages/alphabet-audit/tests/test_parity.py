"""The parity command's parts: a whole plan on a runtime, an interpreter in its own process, evidence that is judged."""

import io
import json
import os
import subprocess
import sys

import pytest
from alphabet_audit import AuditError, evaluate, read_declarations
from alphabet_audit.declare.cases import INTERPRETED, NATIVE, PLANS, expected_cases
from alphabet_audit.declare.declarations import FILES
from alphabet_audit.declare.quantities import GATE_QUANTITIES
from alphabet_audit.evidence.canonical import encode
from alphabet_audit.evidence.environment_form import GPU_IDENTITY
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.gates.runtimes import triton_runtime
from alphabet_audit.measure.manifest import make_manifest
from alphabet_audit.measure.parity import judge_outcomes, record_parity, run_interpreted
from alphabet_audit.protocol.outcomes import Outcome, read_outcome, skip_case
from alphabet_audit.protocol.readings import judge
from alphabet_audit.show.screen import parity_table
from alphabet_testing.audit.evidence_copy import read_run
from alphabet_testing.audit.fake_bench import ENVIRONMENT, FakeBench, skip_sync
from rich.console import Console

DECLARED = read_declarations()


def fake_outcomes(wrong=frozenset(), interpreted=True):
    """All that a parity run on a CPU holds: every gate there is, the native kernels' not run."""
    bench = FakeBench(DECLARED.tolerances, set(wrong))
    for name, plan in (("cpu", "full"), (NATIVE, "full"), (INTERPRETED, "reduced")):
        for case in PLANS[plan]:
            if name == NATIVE or (name == INTERPRETED and not interpreted):
                yield skip_case(name, case, "needs what is not here")
                continue
            readings = bench.readings(case.key, GATE_QUANTITIES[case.gate])
            yield Outcome(case, name, judge(readings), readings)


def record(folder, outcomes):
    manifest = make_manifest("parity", "cpu", ENVIRONMENT, DECLARED)
    with Evidence(folder, manifest, DECLARED.contents, skip_sync) as evidence:
        return record_parity(outcomes, evidence, lambda outcome: None)


@pytest.mark.parametrize("interpreted", [True, False])
def test_whole_parity_evidence_holds_and_what_was_not_run_is_no_pass(tmp_path, interpreted):
    outcomes = record(tmp_path, fake_outcomes(interpreted=interpreted))
    assert judge_outcomes(outcomes)
    found = evaluate(tmp_path, DECLARED)
    assert (found.status, found.reasons) == ("partial", ())  # without a GPU something is always left
    skipped = len(PLANS["full"]) + (0 if interpreted else len(PLANS["reduced"]))
    assert found.counts["gates not run"] == skipped
    assert found.counts["gates passed"] == len(expected_cases("cpu")) - skipped


def test_on_a_gpu_all_gates_can_pass(tmp_path):
    bench = FakeBench(DECLARED.tolerances)
    environment = {
        **ENVIRONMENT,
        "device": {
            "type": "cuda",
            "name": "a GPU that does not exist",
            "capability": "8.9",
            "cuda": "12.8",
            "gpu": dict.fromkeys(GPU_IDENTITY, "unknown"),
        },
    }
    outcomes = []
    for name in ("cpu", NATIVE):
        for case in PLANS["full"]:
            readings = bench.readings(case.key, GATE_QUANTITIES[case.gate])
            outcomes.append(Outcome(case, name, judge(readings), readings))
    manifest = make_manifest("parity", "cuda", environment, DECLARED)
    with Evidence(tmp_path, manifest, DECLARED.contents, skip_sync) as evidence:
        record_parity(iter(outcomes), evidence, lambda outcome: None)
    assert evaluate(tmp_path, DECLARED).status == "pass"


def test_a_failed_gate_fails_the_run(tmp_path):
    assert not judge_outcomes(record(tmp_path, fake_outcomes(wrong={"long 4/2048/64 M16 seed 11"})))
    (reason,) = evaluate(tmp_path, DECLARED).reasons
    assert reason.startswith("cpu, long 4/2048/64 M16 seed 11: fails")


def test_gates_that_nothing_ran_are_no_pass():
    assert not judge_outcomes([skip_case("cpu", case, "nothing here") for case in PLANS["full"]])


PARITY_EDITS = {
    "a native gate passed without CUDA": lambda run: run.records[len(PLANS["full"]) + 1].update(verdict="pass"),
    "a gate of the CPU skipped": lambda run: run.records[3].update(verdict="not-run", readings=[], detail="tired"),
    "a gate lost": lambda run: run.records.pop(5),
    "a gate twice": lambda run: run.records.append(dict(run.records[5])),
    "a reading lost": lambda run: run.records[9]["readings"].pop(),
    "another case": lambda run: run.records[2]["case"].update(length=31),
    "a wider rule": lambda run: run.records[1]["readings"][0].update(rule="trained-logits"),
    "a wider limit": lambda run: run.records[1]["readings"][0].update(limit=1.0),
    "another record": lambda run: run.records.append({"kind": "session", "state": {}, "clock": "monotonic"}),
}


@pytest.mark.parametrize("name", PARITY_EDITS)
def test_an_edit_of_parity_evidence_is_caught(name, tmp_path):
    record(tmp_path, fake_outcomes())
    run = read_run(tmp_path, FILES)
    PARITY_EDITS[name](run)
    run.write(tmp_path)
    assert evaluate(tmp_path, DECLARED).status == "fail"


def test_a_finished_run_of_gates_is_not_written_over(tmp_path):
    record(tmp_path, fake_outcomes())
    with pytest.raises(AuditError, match="holds a run already"):
        record(tmp_path, fake_outcomes())


def test_an_outcome_reads_back_even_if_its_numbers_are_none():
    (case, *_) = PLANS["full"]
    bench = FakeBench(DECLARED.tolerances)
    readings = bench.readings(case.key, {"logits": "logits"})
    spoiled = type(readings[0])("logits", "logits", float("inf"), 0.0, float("nan"))
    outcome = Outcome(case, "cpu", "fail", (spoiled,), "because")
    again = read_outcome(json.loads(encode(outcome.to_record())))
    assert repr(again) == repr(outcome)
    assert not again.worst.holds


def test_the_table_has_a_line_for_every_case():
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(parity_table(list(fake_outcomes())))
    text = console.export_text()
    assert text.count("not-run") == len(PLANS["full"])
    assert text.count("pass") == len(PLANS["full"]) + len(PLANS["reduced"])


def test_the_interpreter_must_be_chosen_before_python_starts(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(AuditError, match="set TRITON_INTERPRET=1"):
        triton_runtime("cpu")


@pytest.mark.slow
def test_a_process_that_dies_leaves_its_gates_failed(tmp_path):
    outcomes = list(run_interpreted(tmp_path / "nowhere"))
    assert [outcome.case for outcome in outcomes] == list(PLANS["reduced"])
    assert {outcome.verdict for outcome in outcomes} == {"fail"}
    assert "designs.toml cannot be read" in outcomes[0].detail


@pytest.mark.slow
def test_the_kernels_pass_a_gate_through_the_interpreter():
    """One case in its own process, as the command runs them all."""
    code = (
        "from alphabet_audit import read_declarations\n"
        "from alphabet_audit.declare.cases import PLANS; from alphabet_audit.gates import run_case\n"
        "from alphabet_audit.gates.runtimes import triton_runtime\n"
        "rules = read_declarations().tolerances\n"
        "case = next(case for case in PLANS['reduced'] if case.gate == 'forward')\n"
        "outcome = run_case(triton_runtime('cpu'), case, rules)\n"
        "print(outcome.verdict, outcome.detail)"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "pass"
