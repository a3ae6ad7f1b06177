"""CpuTrainer against the reference: gradients, losses, trajectories."""

import copy
import functools

import numpy as np
import pytest
import torch
from alphabet_core import RECIPES, Alphabet, AlphabetConfig, AlphabetError, Recipe, TrainingStep
from alphabet_cpu import CpuTrainer, trainer
from alphabet_cpu.folding import FoldingAtBase, FoldingByGraph, is_at_base
from alphabet_cpu.kernels.backward import backpropagate
from alphabet_cpu.kernels.layout import unpack
from alphabet_testing.exact_gradients import assert_gradients_agree, collect_gradients, relative_errors
from alphabet_testing.models import MASKS, make_batch, make_model
from alphabet_testing.sizes import DESIGN_CASES, SIZES
from alphabet_testing.trainers import assert_trajectories_agree


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("length", [1, 3, 5, 9, 70, 150])
@pytest.mark.parametrize("sizes", SIZES[:4])
def test_every_gradient_equals_the_reference(sizes, length, masks):
    model = make_model(*sizes)
    values, given = make_batch(3, length, sizes[0], masks)
    targets = torch.arange(3) % sizes[3]
    assert_gradients_agree(CpuTrainer, model, values, targets, **given)


@functools.cache
def draw_design(batch, length, width, seed):
    """A model, values, targets and exact gradients; these in parts of four sequences, which stay in the cache."""
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=2, width=width, modes=width // 4, outputs=5))
    (values, _), targets = make_batch(batch, length, 2, seed=seed), torch.arange(batch) % 5
    step, exact = TrainingStep(copy.deepcopy(model).double()), values.double().requires_grad_()
    for start in range(0, batch, 4):
        part = slice(start, start + 4)
        step.accumulate(exact[part], targets[part], len(targets[part]) / batch)
    return model, values, targets, {"values": exact.grad, **{n: p.grad for n, p in step.model.named_parameters()}}


@pytest.mark.parametrize(("batch", "length", "width"), DESIGN_CASES)
def test_every_gradient_at_the_designs_of_the_audit(batch, length, width):
    assert_gradients_agree(CpuTrainer, *draw_design(batch, length, width, seed=7))


@pytest.mark.parametrize("seed", [7, 11, 19])
def test_every_gradient_at_the_anchor(seed):
    assert_gradients_agree(CpuTrainer, *draw_design(32, 512, 64, seed))


@pytest.mark.parametrize("size", [1e-20, 1e-6, 1e6, 1e20, 1e25, 1e30])
def test_tiny_and_huge_values_have_the_right_gradients_too(size):
    assert_gradients_agree(CpuTrainer, make_model(), size * make_batch(3, 60, 2)[0], torch.arange(3))


def test_finite_differences_agree():
    model, (values, _) = make_model(1, 8, 3, 2), make_batch(2, 30, 1)
    found = collect_gradients(CpuTrainer(model), values, torch.arange(2))
    loss = TrainingStep(exact := copy.deepcopy(model).double())
    for name, parameter in exact.named_parameters():
        flat, step = parameter.data.view(-1), 1e-6
        for index in range(0, flat.numel(), max(1, flat.numel() // 3)):
            around = []
            for sign in (1.0, -1.0):
                flat[index] += sign * step
                with torch.no_grad():
                    around.append(float(loss.measure(exact(values.double()), torch.arange(2))))
                flat[index] -= sign * step
            difference = (around[0] - around[1]) / (2.0 * step)
            assert float(found[name].view(-1)[index]) == pytest.approx(difference, rel=1e-3, abs=1e-5), name


def test_a_frame_away_from_its_base_has_the_right_gradient():
    assert_gradients_agree(CpuTrainer, make_model(turned=True), make_batch(3, 40, 2)[0], torch.arange(3))


@pytest.mark.parametrize("loss", ["cross_entropy", "multilabel", "mse"])
@pytest.mark.parametrize("microbatch", [None, 3])
def test_three_steps_follow_the_reference(loss, microbatch):
    batches = []
    for k in range(3):
        values, masks = make_batch(8, 90, 2, MASKS[k + 1], seed=k)
        batches.append((values, torch.arange(8) % 5 if loss == "cross_entropy" else torch.rand(8, 5), masks))
    assert_trajectories_agree(CpuTrainer, make_model(), batches, recipe=RECIPES["B"], loss=loss, microbatch=microbatch)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [32, 64])
@pytest.mark.parametrize("seed", [7, 11, 19])
def test_three_steps_at_both_anchors(batch, seed):
    torch.manual_seed(seed)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    values, _ = make_batch(batch, 512, 2, seed=seed)
    assert_trajectories_agree(CpuTrainer, model, 3 * [(values, torch.arange(batch) % 5, {})])


def test_what_the_kernels_do_not_cover_takes_the_reference():
    model, (values, _) = make_model().double(), make_batch(4, 20, 2)
    values = values.double()
    mine, theirs = copy.deepcopy(model), copy.deepcopy(model)
    fused = CpuTrainer(mine)
    assert fused.path(values).startswith("reference: the model is torch.float64")
    assert fused.step(values, torch.arange(4)) == TrainingStep(theirs)(values, torch.arange(4))
    assert CpuTrainer(make_model()).path(values.float()) == "fused"


def test_any_number_of_threads_gives_the_same_bit_by_bit():
    values, _ = make_batch(8, 70, 2)
    before = torch.get_num_threads()

    def train(threads):
        model = make_model()
        torch.set_num_threads(threads)
        step = CpuTrainer(model)
        for _ in range(3):
            step.step(values, torch.arange(8) % 5)
        return [p.detach().clone() for p in model.parameters()]

    try:
        runs = [train(threads) for threads in (1, 1, 2, 3)]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))


def test_no_step_compiles_the_kernel_again():
    CpuTrainer(make_model()).step(make_batch(2, 9, 2)[0], torch.arange(2))
    compiled = len(backpropagate.overloads)
    for length in (1, 5, 6, 30):
        for masks in MASKS:
            values, given = make_batch(2, length, 2, masks)
            CpuTrainer(make_model(), Recipe(1e-3, 1, weight_decay=0)).step(values, torch.arange(2), **given)
    assert len(backpropagate.overloads) == compiled


def test_a_frozen_part_gets_no_gradient():
    values, _ = make_batch(4, 20, 2)
    model = make_model()
    model.head.requires_grad_(False)
    step = CpuTrainer(model)
    for _ in range(3):
        step.step(values, torch.arange(4))
    assert model.head.weight.grad is None
    assert model.project.weight.grad is not None


def test_gradient_hooks_are_called():
    values, _ = make_batch(4, 20, 2)
    step, calls = CpuTrainer(make_model()), []
    step.model.project.weight.register_hook(calls.append)
    assert "a gradient hook is registered" in step.path(values)
    step.step(values, torch.arange(4))
    assert len(calls) == 1


def test_a_base_that_requires_a_gradient_gets_the_references():
    values, _ = make_batch(4, 20, 2)
    models = [make_model(), make_model()]
    for model, kind in zip(models, (CpuTrainer, TrainingStep), strict=True):
        model.direct.frame.base.requires_grad_()
        kind(model).accumulate(values, torch.arange(4), 1.0)
    fused, plain = (model.direct.frame.base.grad for model in models)
    torch.testing.assert_close(fused, plain)
    step = CpuTrainer(models[0])
    for wanted in (True, False, False, True):  # from the second step on, compiled code moves the base
        models[0].direct.frame.base.requires_grad_(wanted).grad = None
        step(values, torch.arange(4))
    assert models[0].direct.frame.base.grad.isfinite().all()


@pytest.mark.parametrize("turned", [False, True])
def test_without_gradients_it_refuses_as_the_reference_does(turned):
    values, model = make_batch(4, 20, 2)[0], make_model(turned=turned)
    step, before = CpuTrainer(model), copy.deepcopy(model.state_dict())
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        step(values, torch.arange(4))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_mistakes_get_the_cores_words():
    with pytest.raises(AlphabetError, match="model must be an Alphabet"):
        CpuTrainer(torch.nn.Linear(2, 2))
    with pytest.raises(AlphabetError, match="targets must lie in 0"):
        CpuTrainer(make_model()).step(make_batch(2, 9, 2)[0], torch.tensor([0, 9]))
    with pytest.raises(AlphabetError, match="values must have 2 channels"):
        CpuTrainer(make_model()).step(torch.randn(2, 9, 3), torch.tensor([0, 1]))


@pytest.mark.parametrize("fault", ["sign", "conjugate", "transpose", "bank", "lag"])
def test_planted_faults_in_the_backward_pass_are_seen(fault, monkeypatch):
    model, (values, _) = make_model(), make_batch(3, 40, 2)
    targets = torch.arange(3)
    exact = collect_gradients(TrainingStep(copy.deepcopy(model).double()), values.double(), targets)
    backpropagate_batch = trainer.backpropagate_batch

    def broken(batch, weights, forward, d_descriptor, threads, **options):
        weights = weights._replace(arrays=weights.arrays._replace(packed=weights.arrays.packed.copy()))
        parts = unpack(weights.arrays.packed, weights.sizes)
        if fault == "sign":
            d_descriptor = -d_descriptor
        elif fault == "conjugate":
            parts.direct.transition[16:32] *= -1
        elif fault == "transpose":
            direct, cascaded = parts.direct.drive, parts.cascaded.drive
            direct[:], cascaded[:] = cascaded.copy(), direct.copy()
        elif fault == "bank":
            d_descriptor = d_descriptor[:, ::-1].copy()
        elif fault == "lag":
            d_descriptor = d_descriptor[..., [0, 3, 4, 1, 2, 5, 6]].copy()
        return backpropagate_batch(batch, weights, forward, d_descriptor, threads, **options)

    monkeypatch.setattr(trainer, "backpropagate_batch", broken)
    assert max(relative_errors(collect_gradients(CpuTrainer(model), values, targets), exact).values()) > 0.01


@pytest.mark.parametrize("sizes", SIZES)
def test_the_fold_by_hand_is_the_fold(sizes):
    model = make_model(*sizes)
    exact = copy.deepcopy(model).double()
    by_hand, by_graph = FoldingAtBase(model), FoldingByGraph(exact)
    np.testing.assert_allclose(by_hand.weights.arrays.packed, by_graph.weights.arrays.packed, rtol=2e-7, atol=1e-9)
    gradient = np.random.default_rng(0).standard_normal(by_hand.weights.arrays.packed.size).astype(np.float32)
    for _ in range(2):  # gradients add up
        FoldingAtBase(model).accumulate_gradients(gradient)
        FoldingByGraph(exact).accumulate_gradients(gradient)
    assert {name for name, p in model.named_parameters() if p.grad is None} == {"head.weight", "head.bias"}
    for (name, mine), wanted in zip(model.named_parameters(), exact.parameters(), strict=True):
        if mine.grad is not None:
            size = float(wanted.grad.abs().max())
            np.testing.assert_allclose(mine.grad, wanted.grad, rtol=2e-7, atol=2e-7 * size, err_msg=name)


def test_the_fold_by_hand_is_used_only_where_it_holds():
    assert is_at_base(make_model())
    assert not is_at_base(make_model(turned=True))
    assert is_at_base(make_model(variant="fixed-poles"))


def test_fixed_poles_train_everything_else():
    model, (values, _) = make_model(variant="fixed-poles"), make_batch(3, 40, 2)
    assert CpuTrainer(model).path(values) == "fused"
    assert_gradients_agree(CpuTrainer, model, values, torch.arange(3))
