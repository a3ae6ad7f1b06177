"""The real bench at a tiny design: arms that agree are timed, executions are chosen, and the evaluator agrees."""

import copy
import gc
import math
import weakref
from dataclasses import replace

import pytest
import torch
from alphabet_audit import evaluate, read_declarations
from alphabet_audit.declare.designs import Row
from alphabet_audit.declare.quantities import after_quantities
from alphabet_audit.evidence.chain import RECORDS, read_records
from alphabet_audit.evidence.environment_form import FRESH_KERNELS
from alphabet_audit.evidence.store import Evidence
from alphabet_audit.gates.comparing import NotFusedError
from alphabet_audit.gates.runtimes import cpu_runtime
from alphabet_audit.measure.device_bench import DeviceBench
from alphabet_audit.measure.environment import describe_environment, read_state, require_plain_float32
from alphabet_audit.measure.executions import Execution, list_executions, run_eagerly, run_graph
from alphabet_audit.measure.ledger import Ledger
from alphabet_audit.measure.manifest import make_manifest
from alphabet_audit.protocol.execution_choice import ExecutionChoice
from alphabet_audit.protocol.plan import Plan
from alphabet_audit.protocol.readings import judge
from alphabet_baselines import FAMILIES
from alphabet_core import TrainingStep
from alphabet_testing.audit.broken_runtimes import make_broken
from alphabet_testing.audit.fake_bench import FakeBench, FakeClock, SilentListener, run_fake, skip_sync
from alphabet_testing.audit.tiny_designs import FastForward, write_tiny_declarations


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return read_declarations(write_tiny_declarations(tmp_path_factory.mktemp("audit")))


@pytest.mark.slow
def test_a_real_run_holds_but_for_what_this_machine_does_to_it(tiny, tmp_path):
    require_plain_float32()
    plan, bench = Plan("same-width", tiny), DeviceBench(tiny, cpu_runtime())
    settled = {"git": {"commit": "0" * 40, "dirty": False}, "kernels": FRESH_KERNELS}  # which a ledger sees to
    environment = {**describe_environment("cpu"), **settled}
    manifest = make_manifest(
        "ledger", "cpu", environment, tiny, plan=plan.to_record(), cells=bench.describe_cells(plan.designs)
    )
    with Evidence(tmp_path, manifest, tiny.contents, skip_sync) as evidence:
        Ledger(plan, bench, FastForward(), evidence, SilentListener()).run(read_state("cpu"))
    found = evaluate(tmp_path, tiny)
    assert all(reason.startswith("noise:") for reason in found.reasons), found.reasons
    records = read_records((tmp_path / RECORDS).read_bytes(), "here")
    rows = [record for record in records if record["kind"] == "row"]
    assert {row["status"] for row in rows} == {"timed"}
    assert len(rows) == 6
    assert {record["chosen"] for record in records if record["kind"] == "choice"} <= {
        name for family in ("cnn1d", "s5") for name in FAMILIES[family].algorithms
    }


def test_an_execution_that_computes_something_else_is_not_kept(tiny):
    bench = DeviceBench(tiny, cpu_runtime())

    def doubled(model, batch, phase):
        arm = run_eagerly(model, batch, phase)
        return lambda: 2.0 * arm()

    (design,) = tiny.designs.designs
    for phase in ("inference", "step"):
        row = Row(design, "s5", phase)
        right = bench.try_execution(row, Execution("fft", "eager", run_eagerly), FakeClockOfCalls())
        wrong = bench.try_execution(row, Execution("fft", "doubled", doubled), FakeClockOfCalls())
        assert right.seconds
        assert not right.reason
        assert wrong.seconds == ()
        assert wrong.reason == "disagrees with its reference"


class FakeClockOfCalls(FakeClock):
    def measure(self, call, repeats):
        call()
        return 1.0


def test_an_execution_that_is_not_to_be_had_says_why(tiny):
    bench = DeviceBench(tiny, cpu_runtime())
    found = {
        each.name: each
        for each in bench.try_executions(ExecutionChoice("same-width", "mamba", "inference"), FakeClockOfCalls())
    }
    assert set(found) == set(FAMILIES["mamba"].algorithms)
    assert "CUDA" in found["official"].reason
    assert found["official"].seconds == ()


def test_a_step_whose_gradient_is_wrong_is_caught(tiny):
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    right = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    assert all(reading.holds for reading in right.check())

    def call():
        loss = right.call()
        next(right.model.parameters()).grad.neg_()
        return loss

    fresh = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    wrong = replace(right, call=call)
    _, gradient = wrong.check()
    assert not gradient.holds
    missing = replace(fresh, call=lambda: torch.zeros(()))
    assert missing.check()[1].error == math.inf


def test_executions_depend_on_the_device():
    names = [execution.name for execution in list_executions("cnn1d", "cpu", compiled=False)]
    assert names == list(FAMILIES["cnn1d"].algorithms)
    assert {each.mode for each in list_executions("cnn1d", "cpu", compiled=True)} == {"eager", "compiled"}
    assert {each.mode for each in list_executions("cnn1d", "cuda", compiled=False)} == {"eager", "compiled", "graph"}


def warm_and_run(run, changed):
    """What recording does to a model, without a GPU: it runs three times first."""
    for _ in range(3):
        run()
    return run


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_recording_leaves_no_trace_in_model_and_optimizer(tiny, phase):
    bench = DeviceBench(tiny, cpu_runtime())
    execution = Execution("conv1d", "graph", lambda *given: run_graph(*given, capture=warm_and_run))
    (design,) = tiny.designs.designs
    recorded = bench.family_arm(Row(design, "cnn1d", phase), execution)
    assert all(reading.holds for reading in recorded.check())  # of the very first step
    plain = bench.family_arm(Row(design, "cnn1d", phase), Execution("conv1d", "eager", run_eagerly))
    plain.check()
    assert torch.equal(recorded.call(), plain.call())  # and of the second


class Replay:
    """As a CUDA graph: it repeats what it recorded by address, and keeps nothing of it alive."""

    def __init__(self, run, changed):
        run()

    def __call__(self):
        """Nothing, since there is no device; whoever calls it finds the result where it was recorded."""


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_a_recording_keeps_alive_all_that_it_addresses(tiny, phase, monkeypatch):
    """Review of the GPU code, A2: gradients, averages and the batch were freed under the graph."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    made = []
    monkeypatch.setattr(
        "alphabet_audit.measure.executions.TrainingStep", lambda m: made.append(TrainingStep(m)) or made[-1]
    )
    arm = bench.family_arm(
        Row(design, "cnn1d", phase), Execution("conv1d", "graph", lambda *given: run_graph(*given, capture=Replay))
    )
    addressed = [*arm.model.parameters(), *arm.batch]
    for step in made:
        addressed += [tensor for state in step.optimizer.state.values() for tensor in state.values()]
        addressed += [parameter.grad for parameter in step.parameters]
    assert len(made) == (phase == "step")
    watched = [weakref.ref(tensor) for tensor in addressed]
    call = arm.call
    made.clear()
    del arm, addressed
    if phase == "step":
        del step
    gc.collect()
    assert all(each() is not None for each in watched)
    assert isinstance(call(), torch.Tensor)
    del call
    gc.collect()
    assert any(each() is None for each in watched)  # and nothing else keeps it


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_the_very_arm_that_is_timed_is_checked_before_and_after_its_groups(tiny, phase):
    """Review of the GPU code, A3: a fresh runtime was checked, so an arm could be wrong and pass."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.alphabet_arm(Row(design, "alphabet", phase))
    assert judge(arm.check()) == "pass"
    for _ in range(20):
        arm.call()
    assert judge(arm.recheck()) == "pass"
    readings = {reading.quantity: reading for reading in arm.recheck()}
    assert readings.keys() == after_quantities(Row(design, "alphabet", phase)).keys()

    def wrong():
        result = arm.call()
        if phase == "step":  # the loss is right, the step is not
            with torch.no_grad():
                next(arm.model.parameters()).add_(1e-2)
            return result
        return result + 1e-4

    spoiled = replace(arm, call=wrong)
    assert judge(spoiled.recheck()) == "fail"
    assert judge(spoiled.check()) == "fail"


def test_what_alphabets_step_is_compared_with_has_an_optimizer_of_its_own(tiny):
    """Its averages were the arm's, which had moved them already: plain torch was off by 1e-5, and 3e-5 allowed."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm, alone = (bench.alphabet_arm(Row(design, "alphabet", "step")) for _ in range(2))

    def slightly_wrong():
        result = arm.call()
        with torch.no_grad():
            for parameter in arm.model.parameters():
                parameter.add_(1e-6)
        return result

    for _ in range(5):
        arm.call()
        alone.call()
    arm.recheck()
    alone.call()
    assert torch.equal(arm.call(), alone.call())  # and what was checked goes on as if nothing had been
    (median,) = (each for each in arm.recheck() if each.quantity == "timed: parameters-median")
    assert max(median.error, median.plain) < tiny.tolerances["parameters-median"].floor == median.limit
    assert judge(replace(arm, call=slightly_wrong).recheck()) == "fail"


def test_a_family_that_goes_wrong_while_it_is_timed_is_found_out(tiny):
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    for _ in range(5):
        arm.call()
    assert judge(arm.recheck()) == "pass"
    assert {reading.quantity for reading in arm.recheck()} == {"family: loss", "family: gradient"}
    spoiled = replace(arm, call=lambda: arm.call() * 1.01)
    assert judge(spoiled.recheck()) == "fail"


def test_a_family_that_fitted_its_batch_meanwhile_is_checked_where_it_began(tiny):
    """CNN1D on a fast machine: after 1,500 steps its gradient is rounding, and the ledger failed for it."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")

    def steps_on():
        for _ in range(1500):
            arm.call()

    class Nowhere:
        def retake(self, call):
            """Check it wherever it is, as before."""

    steps_on()
    assert judge(replace(arm, beginning=Nowhere()).recheck()) == "fail"
    assert judge(arm.recheck()) == "pass"
    steps_on()
    spoiled = replace(arm, call=lambda: arm.call() * 1.01)
    assert judge(spoiled.recheck()) == "fail"

    def backwards():
        loss = arm.call()
        next(arm.model.parameters()).grad.neg_()
        return loss

    assert judge(replace(arm, call=backwards).recheck()) == "fail"
    assert judge(arm.recheck()) == "pass"


def test_a_family_that_reads_weights_of_long_ago_is_found_out(tiny):
    """Setting it back must not hide that: what is read was written by a step of the arm."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    first = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    loss_at_first = first.call()

    def stale():
        arm.call()
        return loss_at_first

    assert judge(replace(arm, call=stale).recheck()) == "fail"


def test_a_family_that_falls_behind_while_it_is_timed_is_found_out(tiny):
    """A step back from a fitted batch moves nothing by itself: after it, one step behind looked like none."""
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    behind, step = copy.deepcopy(arm.model), TrainingStep(arm.model)
    late_step = TrainingStep(behind)

    def late():
        before = [parameter.detach().clone() for parameter in arm.model.parameters()]
        behind.zero_grad()
        loss = late_step.accumulate(*arm.batch, 1.0)
        torch.nn.utils.clip_grad_norm_(behind.parameters(), step.recipe.clip_norm)
        for parameter, own in zip(arm.model.parameters(), behind.parameters(), strict=True):
            parameter.grad = own.grad.clone()
        step.optimizer.step()
        with torch.no_grad():
            for own, value in zip(behind.parameters(), before, strict=True):
                own.copy_(value)
        return loss

    for _ in range(4000):
        step(*arm.batch)
    behind.load_state_dict(arm.model.state_dict())
    late()
    assert judge(replace(arm, call=late).recheck()) == "fail"
    assert judge(replace(arm, call=lambda: step(*arm.batch)).recheck()) == "pass"


def test_a_family_that_diverged_while_it_was_timed_is_found_out(tiny):
    bench = DeviceBench(tiny, cpu_runtime())
    (design,) = tiny.designs.designs
    arm = bench.prepare(Row(design, "cnn1d", "step"), "conv1d")
    with torch.no_grad():
        next(arm.model.parameters())[0] = torch.nan
    assert {reading.error for reading in arm.recheck()} == {math.inf}


def test_an_arm_that_disagrees_after_its_groups_has_no_ratio(tmp_path):
    class Decaying(FakeBench):
        def prepare(self, row, execution):
            found = super().prepare(row, execution)
            wrong = tuple(replace(reading, error=1.0) for reading in found.after)
            return replace(found, after=wrong) if row.key == "same-width 32/512/64 gru step" else found

    declarations = run_fake(tmp_path, "same-width", bench=Decaying)
    reasons = evaluate(tmp_path, declarations).reasons
    assert any("an arm disagrees with its reference after it was timed" in reason for reason in reasons), reasons
    assert any(reason.startswith("after the groups of same-width 32/512/64 gru step: fails") for reason in reasons)


def test_an_alphabet_that_answers_by_the_reference_is_not_timed(tiny):
    bench = DeviceBench(tiny, make_broken("the reference in disguise"))
    (design,) = tiny.designs.designs
    with pytest.raises(NotFusedError, match="the kernels are not installed"):
        bench.prepare(Row(design, "alphabet", "inference"), "fused")
