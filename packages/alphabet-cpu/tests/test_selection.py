"""Models whose modes have two features of their own: the kernels select, and give what the products would."""

import numpy as np
import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig
from alphabet_core.fused import FixedFrame
from alphabet_cpu import CpuRuntime
from alphabet_cpu.weights import fold_and_pack, fold_and_select, has_paired_features


def make_paired(modes=16, channels=3, seed=0):
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=channels, width=2 * modes, modes=modes, outputs=2))
    with torch.no_grad():
        for bank in model.banks():
            bank.frame = FixedFrame(torch.eye(2 * modes))
            bank.norm.gain.uniform_(0.5, 3.0)
        model.synthesis.scale.uniform_(-0.5, 0.5)
        model.synthesis.feedthrough.uniform_(-1.0, 1.0)
    return model


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("modes", "length"), [(16, 1), (16, 130), (32, 300), (48, 40)])
def test_selecting_gives_the_reference_descriptor(modes, length, masked):
    model = make_paired(modes)
    draw = torch.Generator().manual_seed(1)
    values = torch.randn(5, length, 3, generator=draw)
    masks = {}
    if masked:
        masks = {
            "valid": torch.rand(5, length, generator=draw) < 0.8,
            "observed": torch.rand(5, length, 3, generator=draw) < 0.7,
        }
    assert fold_and_select(model).sizes.paired
    found = CpuRuntime(model).describe(values, **masks)
    with torch.no_grad():
        exact = model.double().describe(values.double(), **masks)
    assert found.shape == exact.shape
    assert (found - exact).abs().max() < 2e-5  # float32 sums of a few hundred terms, conditioned by a logarithm


def test_only_paired_features_are_selected():
    paired, general = make_paired(), Alphabet(AlphabetConfig(channels=3, width=32, modes=16, outputs=2))
    uneven = make_paired(modes=8)  # half a group of lanes
    rotated = make_paired()
    rotated.direct.frame = FixedFrame(torch.eye(32).roll(1, 0))
    assert [has_paired_features(model) for model in (paired, general, uneven, rotated)] == [True, False, False, False]
    for model in (paired, uneven, rotated):
        values = torch.randn(2, 50, 3)
        with torch.no_grad():
            torch.testing.assert_close(CpuRuntime(model)(values), model(values), rtol=1e-4, atol=1e-4)


def test_descriptors_by_products_and_by_selection_agree():
    from alphabet_core import read_sequence
    from alphabet_cpu.batch import read_batch, run_batch

    model = make_paired(32, channels=1)
    batch = read_batch(read_sequence(torch.randn(3, 200, 1), channels=1, like=model.project.weight))
    selected, multiplied = (run_batch(batch, weigh(model), 1).outputs for weigh in (fold_and_select, fold_and_pack))
    np.testing.assert_allclose(selected.descriptor, multiplied.descriptor, rtol=0, atol=2e-5)


def test_describe_reads_irregular_steps_too():
    model, values = make_paired(), torch.randn(2, 20, 3)
    steps = torch.rand(2, 20)
    with torch.no_grad():
        expected = model.describe(values, time_delta=steps)
    assert CpuRuntime(model).path(values, time_delta=steps) == "fused"
    torch.testing.assert_close(CpuRuntime(model).describe(values, time_delta=steps), expected)


def test_describe_falls_back_where_the_kernels_do_not_reach():
    model, values = make_paired().double(), torch.randn(2, 20, 3, dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(CpuRuntime(model).describe(values), model.describe(values))
