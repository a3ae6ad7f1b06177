"""Runtime and trainer through alphabet-ptx's driver: the launch path of a GPU, specialization included, executed."""

import copy
import os
from functools import partial

import pytest
import torch
from alphabet_core.fused import run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.models import make_batch, make_model
from alphabet_testing.trainers import assert_trajectories_agree
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.configurations import list_configurations

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

FORWARD = ["edge_fwd_kernel", "reader_fwd_kernel", "head_fwd_kernel"]


@pytest.mark.parametrize("masks", ["none", "both"])
def test_the_runtime_unmodified(masks):
    model, (values, given) = make_model(width=16, modes=4), make_batch(2, 40, 2, masks)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(values.double(), **given)
    with ptx_device("sm_89") as device:
        runtime = TritonRuntime(model, capture=run_eagerly)
        assert runtime.path(values, **given) == "fused"
        first, second = runtime(values, **given), runtime(values, **given)
    assert [launch.kernel for launch in device.report] == 2 * FORWARD
    assert device.report.races == []
    assert torch.equal(first, second)
    torch.testing.assert_close(first.double(), expected, rtol=2e-5, atol=2e-6)


def test_the_order_of_programs_does_not_change_a_bit():
    """Which program of a sequence draws the last ticket, and adds up the chunks, depends on the order."""
    model, (values, given) = make_model(width=16, modes=4), make_batch(2, 150, 2, "both")
    found = []
    for order in ("ascending", "descending", 1, 2):
        with ptx_device("sm_89", order=order) as device:
            found.append(TritonRuntime(model, capture=run_eagerly)(values, **given))
        assert device.report.races == []
    assert all(torch.equal(logits, found[0]) for logits in found)


def test_the_trainer_unmodified():
    (values, _), targets = make_batch(2, 40, 2), torch.arange(2)
    with ptx_device("sm_89") as device:
        make = partial(TritonTrainer, capture=run_eagerly)
        assert_trajectories_agree(make, make_model(width=16, modes=4), 2 * [(values, targets, {})])
    assert [launch.kernel for launch in device.report].count("adamw_kernel") == 2
    assert device.report.races == []


def test_no_argument_has_a_name_that_tritons_binder_uses_itself():
    """Triton generates a function around a kernel, and an argument named like its local variables is lost in it."""
    for launch in list_configurations():
        taken = {"params", "specialization", "options"} & set(launch.kernel.arg_names)
        assert not taken, f"{launch.name} has arguments named {taken}"
