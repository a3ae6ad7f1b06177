"""Every kernel, forward and backward, in Triton's interpreter against the reference in float64."""

import pytest
import torch
from alphabet_core import value_checks
from alphabet_core.fused import LAGS
from alphabet_testing.kernels.chain import CASES, errors, run_kernels, run_reference
from alphabet_testing.kernels.interpreter import InterpretedDevice
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_triton import TritonRuntime
from alphabet_triton.inference import infer
from alphabet_triton.weights import read_weights

# Float32 against float64: sums of some hundred terms and as many roundings, 2e-6 of a tensor's largest entry; for one
# token many gradients are differences of nearly equal terms.
CLOSE, CLOSE_ALONE = 5e-6, 5e-5


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "length", "masks"), CASES)
def test_logits_and_gradients_are_the_references(sizes, length, masks):
    model, (values, given) = make_model(*sizes), make_batch(2, length, sizes[0], masks)
    found = errors(run_kernels(model, values, given, InterpretedDevice()), run_reference(model, values, given))
    assert max(found.values()) < (CLOSE_ALONE if length == 1 else CLOSE), found


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("length", [1, 3, 70])
def test_pairs_are_counted(length, masked):
    valid = (torch.rand(3, length, generator=torch.Generator().manual_seed(1)) < 0.7).to(torch.uint8)
    mask = valid if masked else None
    counts = infer(torch.zeros(3, length, 1), mask, mask, read_weights(make_model(1, 16, 2, 2)), keep=True).counts
    rows = valid.double() if masked else torch.ones(3, length, dtype=torch.float64)
    assert counts.tolist() == [[float(row[lag:] @ row[: max(0, length - lag)]) for lag in (0, *LAGS)] for row in rows]


@pytest.mark.parametrize("width", [24, 160])
@pytest.mark.parametrize("masks", MASKS)
def test_logits_of_the_runtime_are_the_references(masks, width):
    model, (values, given) = make_model(2, width, 5, 3), make_batch(2, 40, 2, masks)
    runtime = TritonRuntime(model)
    assert runtime.path(values, **given) == "fused"
    with torch.no_grad():
        assert float((runtime(values, **given) - model(values, **given)).abs().max()) < 1e-6


def test_a_runtime_follows_its_model_and_keeps_one_recording_per_shape():
    model = make_model(1, 16, 2, 2)
    runtime, (values, given) = TritonRuntime(model), make_batch(2, 20, 1, "valid")
    with torch.no_grad():
        for _ in range(2):
            assert float((runtime(values, **given) - model(values, **given)).abs().max()) < 1e-6
            model.project.weight *= 1.5
        assert float((runtime(values[:1, :9].nan_to_num()) - model(values[:1, :9].nan_to_num())).abs().max()) < 1e-6
    assert len(runtime._recordings) == 2


def test_no_drive_gives_the_reference_too():
    model, values = make_model(1, 16, 2, 2), torch.zeros(1, 20, 1)
    with torch.no_grad():
        assert float((TritonRuntime(model)(values) - model(values)).abs().max()) < 1e-6
    found = errors(run_kernels(model, values, {}, InterpretedDevice()), run_reference(model, values, {}))
    assert max(found.values()) < CLOSE, found


@pytest.mark.parametrize("width", [16, 160])
@pytest.mark.parametrize("size", [1e-20, 1e19, 1e25])
def test_tiny_and_huge_values_give_the_reference_too(size, width):
    model, values = make_model(1, width, 2, 2), size * make_batch(1, 20, 1)[0]
    with torch.no_grad():
        assert float((TritonRuntime(model)(values) - model(values)).abs().max()) < 2e-6


@pytest.mark.parametrize("masks", ["none", "valid"])
@pytest.mark.parametrize("size", [1e-20, 1e15, 1e19, 1e36])
def test_gradients_of_tiny_and_huge_values_are_the_references_too(size, masks):
    model, (values, given) = make_model(1, 16, 2, 2), make_batch(1, 20, 1, masks)
    values = size * values.nan_to_num()
    found = errors(
        run_kernels(model, values, given, InterpretedDevice()), run_reference(model, values, given), least=1e-37
    )
    assert max(found.values()) < 1e-4, found


@pytest.mark.slow
@pytest.mark.parametrize("width", [16, 160])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_unchecked_nan_and_inf_reach_the_logits_and_gradients(bad, width):
    model, (values, _) = make_model(1, width, 2, 2), make_batch(2, 20, 1)
    values[1, 9, 0] = bad
    with value_checks(False):
        logits = TritonRuntime(model)(values)
        found = run_kernels(model, values, {}, InterpretedDevice())
    assert torch.isfinite(logits[0]).all()
    assert torch.isnan(logits[1]).all()
    assert torch.isfinite(found["values"][0]).all()
    assert not torch.isfinite(found["values"][1]).any()
    assert not torch.isfinite(found["project.weight"]).any()
