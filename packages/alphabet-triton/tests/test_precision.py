"""Settings and hardware of less precision: autocast, TF32, and a GPU that rounds as badly as it may."""

import copy
import os
from functools import partial

import pytest
import torch
from alphabet_audit import read_declarations
from alphabet_audit.declare.cases import PLANS
from alphabet_audit.gates import run_case
from alphabet_audit.gates.runtimes import Runtime
from alphabet_core import TrainingStep
from alphabet_core.fused import run_eagerly
from alphabet_ptx import ptx_device
from alphabet_testing.kernels.chain import (
    errors,
    make_targets,
    run_kernels,
    run_program,
    run_reference,
    run_reference_loss,
)
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


def make_slow_case(seed, length=1160):
    """A model whose poles remember some 800 tokens, and 37 chunks of 32, carried over in three rounds of sixteen."""
    model, (values, _) = make_model(2, 16, 3, 2, seed=seed), make_batch(1, length, 2, seed=seed)
    with torch.no_grad():
        for bank in model.banks():
            bank.poles.raw_decay.fill_(-9.0)  # a decay of .00125, where the least is .001
    return model, values


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_logits_of_slow_poles_are_as_close_as_any(seed):
    """A pole rounded to float32 is off by 800 times its rounding after 800 tokens: plain torch is 1e-5 from float64.

    Here powers are rounded one by one, and what chunks hand on has weights of its own: what grows with the distance
    grows over one chunk of 32 only. See docs/gpu.md.
    """
    (model, values), device = make_slow_case(seed), PtxDevice()
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(values.double())
        found = TritonRuntime(model, device=device, capture=run_eagerly)(values)
    assert float((found - exact).abs().max()) < 2e-6
    assert device.races == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_of_slow_poles_are_four_times_better_than_plain_torchs(seed):
    """What is wrong grows over the 128 tokens of a block of the adjoint; plain torch's grows over some 800."""
    (model, values), device = make_slow_case(seed), PtxDevice()
    exact, found = run_reference_loss(model, values, {}), run_program(model, values, {}, device)
    plain = copy.deepcopy(model)
    plain.zero_grad()
    TrainingStep(plain).accumulate(values, make_targets(model, 1, "cross_entropy"), 1.0)
    eager = {f"{name} by loss": parameter.grad for name, parameter in plain.named_parameters()}
    wrong = errors(found, exact)
    assert max(wrong.values()) < max(errors(eager, exact).values()) / 4, wrong
    assert wrong["loss"] < 2e-6
