"""Every configuration launched by Triton, against the same launch as executed PTX. Nothing is captured."""

import os

import pytest
import torch
from alphabet_core import TrainingStep
from alphabet_core.fused import run_eagerly
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer
from gpu_suite import expected, list_launches, name_of, run_natively


def small() -> bool:
    """Whether a few configurations stand for all: executing them is slow, and a GPU is not there."""
    native = os.environ.get("ALPHABET_GPU_SUITE") or ("native" if torch.cuda.is_available() else "ptx")
    return native == "ptx" or os.environ.get("ALPHABET_GPU_SMALL") == "1"


@pytest.mark.slow
@pytest.mark.parametrize("launch", list_launches(small=small()), ids=name_of)
def test_a_native_launch_does_what_executed_ptx_does(launch, gpu, ledger):
    wanted = expected(launch, ledger.folder)
    found = run_natively(launch, gpu.home)
    verdicts = [ledger.compare(f"launch {name_of(launch)}", name, found[name], wanted[name]) for name in wanted]
    assert all(verdicts), f"{name_of(launch)} {dict(launch.constants)}: {dict(zip(wanted, verdicts, strict=True))}"


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["none", "both"])
def test_logits_without_a_graph(masks, gpu, ledger):
    model, (values, given) = make_model(2, 16, 4, 3), make_batch(2, 40, 2, masks)
    exact = make_model(2, 16, 4, 3).double()
    with torch.no_grad():
        wanted = exact(values.double(), **given)
    runtime = TritonRuntime(gpu.to(model), capture=run_eagerly)
    assert runtime.path(gpu.to(values), **gpu.to(given)) == "fused"
    assert ledger.compare(f"logits, masks {masks}", "logits", runtime(gpu.to(values), **gpu.to(given)), wanted)


@pytest.mark.slow
def test_a_step_without_a_graph(gpu, ledger):
    (values, _), targets = make_batch(2, 40, 2), torch.arange(2)
    exact = TrainingStep(make_model(2, 16, 4, 3).double())
    trainer = TritonTrainer(gpu.to(make_model(2, 16, 4, 3)), capture=run_eagerly)
    for number in range(2):
        loss, wanted = trainer.step(gpu.to(values), gpu.to(targets)), exact(values.double(), targets)
        assert ledger.compare(f"step {number}", "loss", loss, wanted)
