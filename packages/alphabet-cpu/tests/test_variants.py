"""Structural variants and other lags by the fused kernels, against the reference in float64."""

import copy
import dataclasses

import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, TrainingStep
from alphabet_core.config import VARIANTS
from alphabet_cpu import CpuRuntime, CpuTrainer
from alphabet_cpu.batch import LEAST_PER_THREAD
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph
from alphabet_cpu.kernels.backward import backpropagate
from alphabet_cpu.kernels.inference import run_tiles
from alphabet_testing.exact_gradients import assert_gradients_agree
from alphabet_testing.models import MASKS, make_batch, make_model, move_parameters, start_near_identity
from alphabet_testing.timing import interleaved_ratio
from alphabet_testing.trainers import assert_trajectories_agree

LAGS = [(1,), (3,), (4, 2, 1), (1, 2, 3, 4, 5, 6, 7, 8), (130,), (2, 300)]
# Every variant, and the full dataflow with other lags: also beyond a tile of 128 tokens, and beyond the sequence.
STRUCTURES = {**VARIANTS, **{f"lags {lags}": {"lags": lags} for lags in LAGS}}


def make_structure(name, channels=2, width=40, modes=9, outputs=3, seed=0, turned=False):
    torch.manual_seed(seed)
    config = AlphabetConfig(channels=channels, width=width, modes=modes, outputs=outputs)
    model = Alphabet(dataclasses.replace(config, **STRUCTURES[name]))
    start_near_identity(model)
    move_parameters(model, 0.1, tangents=0.1 if turned else 0.0)
    return model


def make_inputs(length, masks, clocked):
    values, inputs = make_batch(3, length, 2, masks)
    if clocked:
        inputs["time_delta"] = 2.0 * torch.rand(3, length, generator=torch.Generator().manual_seed(5))
    return values, inputs


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("name", STRUCTURES)
def test_logits_and_descriptor_equal_the_reference(name, masks, clocked):
    model = make_structure(name)
    runtime, exact = CpuRuntime(model), copy.deepcopy(model).double()
    for length in (1, 5, 129, 200):
        values, inputs = make_inputs(length, masks, clocked)
        assert runtime.path(values, **inputs) == "fused"
        wide = {name: given.double() if name == "time_delta" else given for name, given in inputs.items()}
        with torch.no_grad():
            logits, descriptor = exact(values.double(), **wide), exact.describe(values.double(), **wide)
        found = runtime.describe(values, **inputs)
        assert found.shape == descriptor.shape
        assert float((found - descriptor).abs().max()) < 2e-6
        assert float((runtime(values, **inputs) - logits).abs().max()) < 1e-6


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_descriptor_is_that_of_its_sequence_alone(name, clocked):
    """Bank by bank, (B, banks, M, 1 + 2 lags): what is behind a sequence's end is not in it."""
    runtime, lengths = CpuRuntime(model := make_structure(name)), (1, 130, 200)
    values, inputs = make_inputs(200, "none", clocked)
    valid = torch.arange(200) < torch.tensor(lengths)[:, None]
    found = runtime.describe(values.masked_fill(~valid[..., None], torch.nan), valid=valid, **inputs)
    banks, lags = 1 + (model.cascaded is not None), len(model.config.lags)
    assert found.shape == (3, banks, 9, 1 + 2 * lags)
    for row, length in enumerate(lengths):
        alone = {name: given[row : row + 1, :length] for name, given in inputs.items()}
        assert torch.equal(found[row], runtime.describe(values[row : row + 1, :length], **alone)[0])


@pytest.mark.parametrize("masks", ["none", "both"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_every_gradient_equals_the_reference(name, masks):
    model = make_structure(name)
    for length, clocked in ((1, False), (140, False), (300, False), (40, True)):
        values, inputs = make_inputs(length, masks, clocked)
        assert CpuTrainer(copy.deepcopy(model)).path(values, **inputs) == "fused"
        assert_gradients_agree(CpuTrainer, model, values, torch.arange(3), **inputs)


@pytest.mark.parametrize("name", VARIANTS)
def test_three_steps_follow_the_reference(name):
    batches = [(make_batch(6, 60, 2, MASKS[k], seed=k)[0].nan_to_num(), torch.arange(6) % 3, {}) for k in range(3)]
    assert_trajectories_agree(CpuTrainer, make_structure(name), batches)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_frame_away_from_its_base_has_the_right_gradient(name, turned):
    values, _ = make_batch(3, 30, 2)
    assert_gradients_agree(CpuTrainer, make_structure(name, turned=turned), values, torch.arange(3))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_fold_by_hand_is_the_fold(name):
    model = make_structure(name)
    by_hand, by_graph = FoldingAtBase(model), FoldingByGraph(copy.deepcopy(model).double())
    assert by_hand.weights.sizes[:4] == by_graph.weights.sizes[:4]
    packed = by_hand.weights.arrays.packed
    torch.testing.assert_close(torch.from_numpy(packed), torch.from_numpy(by_graph.weights.arrays.packed))


@pytest.mark.parametrize("name", STRUCTURES)
def test_long_sequences_are_split_in_time_and_nothing_changes(name):
    model = make_structure(name, 1, 16, 4, 3)
    values, masks = make_batch(1, 3 * LEAST_PER_THREAD // 16 + 137, 1, "both")
    masks["valid"][:, 2500:] = False  # the last tiles are padding
    before, runs = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            step = CpuTrainer(copy.deepcopy(model))
            step.accumulate(values, torch.zeros(1, dtype=torch.int64), 1.0, **masks)
            gradients = [parameter.grad for parameter in step.model.parameters()]
            runs.append([CpuRuntime(model)(values, **masks), *gradients])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))


def test_no_variant_compiles_a_kernel_again():
    values, targets = make_batch(2, 9, 2)[0], torch.arange(2)
    CpuTrainer(make_structure("full")).step(values, targets)
    compiled = len(run_tiles.overloads), len(backpropagate.overloads)
    for name in STRUCTURES:
        CpuTrainer(make_structure(name)).step(values, targets)
    assert (len(run_tiles.overloads), len(backpropagate.overloads)) == compiled


def test_an_energy_head_gets_its_gradients():
    model = make_structure("energy-only")
    step = CpuTrainer(model)
    step.step(make_batch(3, 30, 2)[0], torch.arange(3))
    assert all(parameter.grad is not None for parameter in model.head.parameters())


@pytest.mark.parametrize("name", VARIANTS)
def test_a_step_of_a_variant(benchmark, name):
    torch.manual_seed(0)
    step, values = CpuTrainer(make_model(variant=name)), torch.randn(8, 512, 2)
    assert torch.isfinite(benchmark.pedantic(step, (values, torch.arange(8) % 5), rounds=5, warmup_rounds=2))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_much_faster_than_the_reference(name):
    model, values, targets = make_model(variant=name), torch.randn(8, 512, 2), torch.arange(8) % 5
    runtime = CpuRuntime(model)
    with torch.no_grad():
        assert interleaved_ratio(lambda: model(values), lambda: runtime(values), rounds=7) > 3.0
    steps = [TrainingStep(copy.deepcopy(model)), CpuTrainer(copy.deepcopy(model))]
    plain, fused = (lambda step=step: step(values, targets) for step in steps)
    fused()
    assert interleaved_ratio(plain, fused, rounds=5) > 2.5
