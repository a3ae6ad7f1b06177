"""Every kernel, forward and backward, in Triton's interpreter against the reference in float64."""

import pytest
import torch
from alphabet_core import value_checks
from alphabet_triton import TritonRuntime
from alphabet_triton.launching import TritonDevice
from examples import MASKS, make_batch, make_model
from kernel_chain import CASES, errors, run_kernels, run_reference

# Float32 against float64: sums of some hundred terms and as many roundings, 2e-6 of a tensor's largest entry; for one
# token many gradients are differences of nearly equal terms.
CLOSE, CLOSE_ALONE = 5e-6, 5e-5


@pytest.mark.parametrize(("sizes", "length", "masks"), CASES)
def test_sums_and_gradients_are_the_references(sizes, length, masks):
    model, (values, given) = make_model(*sizes), make_batch(2, length, sizes[0], masks)
    d_sums = torch.randn(2, 2, 7, sizes[2], generator=torch.Generator().manual_seed(3)) / length
    saved, gradients = run_kernels(model, values, given, d_sums, TritonDevice())
    sums, exact = run_reference(model, values, given, d_sums)
    assert float((saved.sums - sums).abs().max() / sums.abs().max()) < CLOSE
    assert max(errors(gradients, exact).values()) < (CLOSE_ALONE if length == 1 else CLOSE)
    pairs = [[float(row[lag:] @ row[: length - lag]) for lag in (0, 1, 2, 4)] for row in valid_rows(values, given)]
    assert saved.counts.tolist() == pairs


def valid_rows(values, given):
    return given.get("valid", torch.ones(values.shape[:2], dtype=torch.bool)).double()


@pytest.mark.parametrize("masks", MASKS)
def test_logits_are_the_references(masks):
    model, (values, given) = make_model(2, 24, 5, 3), make_batch(2, 40, 2, masks)
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


@pytest.mark.parametrize("size", [1e-20, 1e19, 1e25])
def test_tiny_and_huge_values_give_the_reference_too(size):
    model, values = make_model(1, 16, 2, 2), size * make_batch(1, 20, 1)[0]
    with torch.no_grad():
        assert float((TritonRuntime(model)(values) - model(values)).abs().max()) < 2e-6


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_unchecked_nan_and_inf_reach_the_logits_of_their_row(bad):
    values, _ = make_batch(2, 20, 1)
    values[1, 9, 0] = bad
    with value_checks(False):
        logits = TritonRuntime(make_model(1, 16, 2, 2))(values)
    assert torch.isfinite(logits[0]).all()
    assert torch.isnan(logits[1]).all()
