"""Parameters of other shapes than a configuration's: torch broadcasts or adds them, kernels must not read them."""

import copy
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from alphabet_core.fused import run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.graphs import cuda_graphs
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from alphabet_triton.launching import RecordingDevice
from torch.nn import Parameter

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

SIZES = (2, 16, 4, 3)


def replace_head(outputs):
    def replace(model):
        model.head.weight = Parameter(torch.linspace(-0.1, 0.1, outputs * 56).view(outputs, 56))
        model.head.bias = Parameter(torch.linspace(0.0, 1.0, outputs))

    return replace


ONE = torch.ones(1)
# What is put where, and what dispatch says of it.
OTHERS = {
    "a bias of one for all logits": ("head", "bias", ONE, "weight of the model's AffineHead"),
    "a gain of one": ("direct.norm", "gain", ONE, "gain of the model's RMSNorm"),
    "one lift's bias": ("direct.lift", "bias", ONE, "bias of the model's Lift"),
    "a bias of the projection": ("project", "bias", torch.ones(16), "the projection has a bias"),
}


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("name", OTHERS)
def test_what_torch_broadcasts_or_adds_takes_the_reference(name, used):
    place, attribute, tensor, said = OTHERS[name]
    model, (values, _) = make_model(*SIZES), make_batch(2, 20, 2)
    runtime = TritonRuntime(model, device=RecordingDevice(), capture=run_eagerly)
    if used:
        runtime(values)
    setattr(model.get_submodule(place), attribute, Parameter(tensor.clone()))
    assert runtime.path(values).startswith(f"reference: {said}")
    with torch.no_grad():
        assert torch.equal(runtime(values), model(values))


def test_a_head_with_other_outputs_is_read_and_trained_as_it_is():
    model, (values, _) = make_model(*SIZES), make_batch(2, 20, 2)
    with ptx_device("sm_89"), cuda_graphs():
        runtime = TritonRuntime(model)
        runtime(values)
        for outputs in (1, 5, 3):
            replace_head(outputs)(model)
            with torch.no_grad():
                wanted = copy.deepcopy(model).double()(values.double())
            assert runtime.path(values) == "fused"
            torch.testing.assert_close(runtime(values).double(), wanted, rtol=2e-5, atol=2e-6)
    replace_head(5)(model)
    TritonTrainer(model, device=RecordingDevice(), capture=run_eagerly).step(values, torch.tensor([4, 0]))


def test_threads_that_share_a_runtime_get_their_own_logits():
    model = make_model(*SIZES)
    batches = [make_batch(2, 20, 2, seed=seed)[0] for seed in range(4)]
    with torch.no_grad():
        wanted = [copy.deepcopy(model).double()(values.double()) for values in batches]
    with ptx_device("sm_89"), cuda_graphs():
        runtime = TritonRuntime(model)
        runtime(batches[0])
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(runtime, 4 * batches))
    for logits, expected in zip(found, 4 * wanted, strict=True):
        torch.testing.assert_close(logits.double(), expected, rtol=2e-5, atol=2e-6)
