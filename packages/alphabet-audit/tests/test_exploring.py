"""Exploratory comparisons use the ledger's bench and protocol, and time no execution that is not exact."""

import pytest
from alphabet_audit import AuditError, read_declarations
from alphabet_audit.declare.designs import Row
from alphabet_audit.gates.runtimes import cpu_runtime
from alphabet_audit.measure.device_bench import DeviceBench
from alphabet_audit.measure.executions import Execution, run_eagerly
from alphabet_audit.measure.exploring import EXPLORED, choose_arm, explore_row, prepare_alphabet
from alphabet_audit.protocol.orders import abba_orders, seed_of
from alphabet_testing.audit.broken_runtimes import make_broken
from alphabet_testing.audit.tiny_designs import FastForward, write_tiny_declarations


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return read_declarations(write_tiny_declarations(tmp_path_factory.mktemp("audit")))


def test_a_row_is_timed_in_the_ledgers_order_by_the_ledgers_blocks(tiny):
    bench, (design,) = DeviceBench(tiny, cpu_runtime()), tiny.designs.designs
    row = Row(design, "cnn1d", "step")
    with bench.session():
        found = explore_row(bench, FastForward(), prepare_alphabet(bench, design, "step"), row)
    orders = abba_orders(EXPLORED.groups, seed_of(row.key))
    assert tuple(group["order"] for group in found.groups) == orders
    assert all(len(group["seconds"]) == 4 for group in found.groups)
    assert found.execution in ("conv1d", "gemm")
    assert found.to_record()["ratio"] == found.summary["ratio"] > 0.0


def do_nothing(model, batch, phase):
    """The fastest execution of all, which is wrong."""
    result = run_eagerly(model, batch, phase)()
    return lambda: 0.5 * result


def refuse(model, batch, phase):
    raise RuntimeError("needs what is not here")


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_the_fastest_execution_ends_the_comparison_if_it_is_wrong(tiny, phase):
    bench, (design,) = DeviceBench(tiny, cpu_runtime()), tiny.designs.designs
    wrong, right = Execution("conv1d", "wrong", do_nothing), Execution("conv1d", "eager", run_eagerly)
    with pytest.raises(AuditError, match="cnn1d, conv1d, wrong, disagrees with its reference"):
        choose_arm(bench, FastForward(), Row(design, "cnn1d", phase), [wrong, right])


@pytest.mark.parametrize("phase", ["inference", "step"])
def test_an_execution_that_fails_is_left_out_with_its_reason(tiny, phase):
    bench, (design,) = DeviceBench(tiny, cpu_runtime()), tiny.designs.designs
    unavailable, right = Execution("conv1d", "unavailable", refuse), Execution("conv1d", "eager", run_eagerly)
    row = Row(design, "cnn1d", phase)
    name, arm, left_out = choose_arm(bench, FastForward(), row, [unavailable, right])
    assert name == right.name
    assert arm.call() is not None
    assert left_out == {unavailable.name: "RuntimeError: needs what is not here"}
    with pytest.raises(AuditError, match=r"no execution of cnn1d runs here .* needs what is not here"):
        choose_arm(bench, FastForward(), row, [unavailable])


def test_an_alphabet_that_is_wrong_is_not_compared(tiny):
    bench, (design,) = DeviceBench(tiny, make_broken("logits slightly scaled")), tiny.designs.designs
    with pytest.raises(AuditError, match="ALPHABET disagrees with its reference"):
        prepare_alphabet(bench, design, "inference")
