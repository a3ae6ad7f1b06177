"""The gates pass what is right and reject what is not: one planted fault after the other."""

import math

import pytest
import torch
from alphabet_audit import read_declarations
from alphabet_audit.declare.cases import PLANS, SEEDS
from alphabet_audit.declare.quantities import GATE_QUANTITIES, PARAMETERS
from alphabet_audit.declare.tolerances import Tolerance
from alphabet_audit.gates import GATES, run_case
from alphabet_audit.gates.comparing import compare, largest
from alphabet_audit.gates.runtimes import cpu_runtime
from alphabet_audit.protocol.readings import Reading, judge
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_testing.audit.broken_runtimes import BROKEN, make_broken

RULES = read_declarations().tolerances
WITHOUT_NUMBERS = ("crash", "the reference in disguise")
REDUCED = {case.gate: case for case in PLANS["reduced"]}


@pytest.mark.parametrize("gate", GATES)
def test_the_cpu_runtime_passes_and_reads_all_that_it_must(gate):
    outcome = run_case(cpu_runtime(), REDUCED[gate], RULES)
    assert outcome.verdict == "pass", outcome
    assert {reading.quantity: reading.rule for reading in outcome.readings} == GATE_QUANTITIES[gate]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_runtime_is_rejected(name):
    runtime, expected = make_broken(name), BROKEN[name][1]
    outcomes = {gate: run_case(runtime, REDUCED[gate], RULES) for gate in expected}
    assert {gate for gate, outcome in outcomes.items() if outcome.verdict == "fail"} == set(expected)
    # By its numbers, and not because the planted fault could not be called.
    assert all(outcome.readings for outcome in outcomes.values()) != (name in WITHOUT_NUMBERS)


def test_there_are_enough_faults_and_every_gate_rejects_one():
    assert len(BROKEN) >= 20
    assert {gate for _, expected in BROKEN.values() for gate in expected} == set(GATES)


def test_the_full_plan_is_the_specification():
    cases = {(case.gate, case.batch, case.length, case.width, case.modes, case.seed) for case in PLANS["full"]}
    assert SEEDS == (7, 11, 19)
    for gate in ("forward", "gradients", "trajectory"):
        assert {case[1:] for case in cases if case[0] == gate} == {
            (batch, 512, 64, 16, seed) for batch in (32, 64) for seed in SEEDS
        }
    lengths = {case.gate: case.length for case in PLANS["full"]}
    assert (lengths["long"], lengths["short"]) == (2048, 31)
    assert {case.modes for case in PLANS["full"] if case.gate == "seven-modes"} == {7}
    assert {case.gate for case in PLANS["full"]} == {case.gate for case in PLANS["reduced"]} == set(GATES)


def test_the_literal_list_of_parameters_is_the_models():
    model = Alphabet(AlphabetConfig(2, 16, 4, 5))
    assert sorted(PARAMETERS) == sorted(name for name, _ in model.named_parameters())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_passes(bad):
    spoiled = torch.tensor([0.0, bad, 0.0])
    assert largest(spoiled) == math.inf
    zero = torch.zeros(3)
    for found, plain in ((spoiled, zero), (zero, spoiled)):
        reading = compare("logits", found, plain, zero.double(), RULES, "logits")
        assert not reading.holds
        assert reading.limit_share == math.inf
        assert judge([reading]) == "fail"
    assert not Reading("logits", "logits", bad, 0.0, 1.0).holds
    assert not Reading("logits", "logits", 0.0, 0.0, math.nan).holds


def test_nothing_read_is_nothing_passed():
    assert judge([]) == "fail"


def test_a_limit_is_earned():
    rule = Tolerance("logits", floor=1e-6, slack=3.0, ceiling=1e-5, reason="derived")
    assert rule.limit(0.0) == 1e-6
    assert rule.limit(1e-6) == pytest.approx(3e-6)
    assert rule.limit(1e-5) == pytest.approx(3e-5)
    assert math.isnan(rule.limit(math.nan))
    assert math.isnan(rule.limit(1.1e-5))  # beside a plain torch that is wrong itself nothing is right
