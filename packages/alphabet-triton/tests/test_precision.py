"""Settings and hardware of less precision: autocast, TF32, and a GPU that rounds as badly as it may."""

import os
from functools import partial

import pytest
import torch
from alphabet_audit import read_declarations
from alphabet_audit.declare.cases import PLANS
from alphabet_audit.gates import run_case
from alphabet_audit.gates.runtimes import Runtime
from alphabet_core.fused import run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.chain import errors, run_kernels, run_reference
from alphabet_testing.kernels.device import PtxDevice
from alphabet_testing.kernels.precision import LESS_PRECISE
from alphabet_testing.models import make_batch, make_model
from alphabet_triton import TritonRuntime, TritonTrainer

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="compiled kernels, not interpreted")

# Finite differences call the runtime hundreds of times, and say nothing about rounding.
CASES = [case for case in PLANS["reduced"] if case.gate != "finite-differences"]
QUICK = ("forward", "gradients")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.key, marks=[] if case.gate in QUICK else pytest.mark.slow) for case in CASES]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_gates_hold_on_a_gpu_that_rounds_as_badly_as_it_may(case, seed):
    """Tensor cores truncate, approximate instructions are off by all that the manual allows: frozen tolerances hold."""
    make = partial(TritonRuntime, capture=run_eagerly), partial(TritonTrainer, capture=run_eagerly)
    with ptx_device("sm_89", rounding="worst", seed=seed) as device:
        outcome = run_case(Runtime("triton", "cuda", "reduced", *make), case, read_declarations().tolerances)
    assert outcome.verdict == "pass", [reading for reading in outcome.readings if not reading.holds] or outcome
    assert len(device.report) > 0


@pytest.mark.parametrize("setting", LESS_PRECISE)
def test_settings_of_less_precision_change_nothing(setting):
    model, (values, masks) = make_model(2, 16, 4, 3), make_batch(2, 20, 2, "both")
    exact, device = run_reference(model, values, masks), PtxDevice()
    with LESS_PRECISE[setting]():
        found = run_kernels(model, values, masks, device)
        trainer = TritonTrainer(model, device=device, capture=run_eagerly)
        for _ in range(3):
            trainer.step(values, torch.tensor([2, 0]), **masks)
    assert max(errors(found, exact).values()) < 5e-6
    for bank in model.banks():
        base = bank.frame.base.double()
        assert float((base.mT @ base - torch.eye(16, dtype=torch.float64)).abs().max()) < 1e-6
